"""The text of a section of INFO, in both forms of the codec."""

from __future__ import annotations

from types import ModuleType

import pytest

from headrace.server.reports import section_text_plain

try:
    from headrace.server.reports import section_text
except ImportError:  # there was no C compiler at installation
    section_text = section_text_plain  # type: ignore[assignment]

FORMS = [section_text, section_text_plain]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, b"0"),
        (-1, b"-1"),
        (2**63 - 1, b"9223372036854775807"),
        (-(2**63), b"-9223372036854775808"),
        (2**64, b"18446744073709551616"),
        (True, b"True"),
        (1.5, b"1.5"),
        ("", b""),
        ("ok", b"ok"),
        ("caf\u00e9", b"caf\xc3\xa9"),
        ("/data/\udcff", b"/data/\xff"),
        ("x" * 10_000, b"x" * 10_000),
    ],
)
def test_a_line_has_the_value_of_its_field(form: ModuleType, value: object, shown: bytes) -> None:
    assert form.section_text("Title", [("field", value)]) == b"# Title\r\nfield:%b\r\n" % shown


@pytest.mark.parametrize("form", FORMS)
def test_lines_are_in_the_order_of_the_fields(form: ModuleType) -> None:
    fields = [(f"field{number}", number) for number in range(1_000)]
    lines = b"".join(b"field%d:%d\r\n" % (number, number) for number in range(1_000))
    assert form.section_text("Many", fields) == b"# Many\r\n" + lines
    assert form.section_text("Empty", []) == b"# Empty\r\n"
