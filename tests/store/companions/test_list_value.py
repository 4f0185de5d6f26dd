"""Lists keep their elements in order, and the nodes of Redis."""

from __future__ import annotations

import random

from headrace.store.companions.list_value import ListValue
from headrace.store.limits import Limits


def test_ends_of_a_list_behave_as_those_of_a_python_list() -> None:
    rng, plain = random.Random(1), list[bytes]()
    value = ListValue(Limits(list_node_max=3))
    for number in range(2000):
        element = b"%d" % number
        if rng.random() < 0.3:
            value.push_left([element])
            plain.insert(0, element)
        elif rng.random() < 0.6:
            value.push_right([element])
            plain.append(element)
        elif plain:
            assert value.pop(1, at_left=True) == [plain.pop(0)]
            value.shrink()
        value.check()
        assert list(value) == plain


def test_a_list_becomes_a_listpack_again_at_half_of_the_limit() -> None:
    value = ListValue(Limits(list_node_max=4))
    value.push_right([b"1", b"2", b"3", b"4", b"5"])
    assert value.encoding == b"quicklist"
    value.pop(2, at_left=False)
    value.shrink()
    assert value.encoding == b"quicklist"
    value.pop(1, at_left=False)
    value.shrink()
    assert value.encoding == b"listpack"


def test_a_large_element_has_a_node_of_its_own() -> None:
    value = ListValue(Limits())
    value.push_right([b"a", b"x" * 9000, b"b"])
    assert [
        (value.elements.is_plain(at), len(value.elements.node(at))) for at in range(value.elements.nodes_count)
    ] == [(False, 1), (True, 1), (False, 1)]
    value.check()
