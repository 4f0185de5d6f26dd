"""The option `fields`: what Spark takes is accepted, and an error names the word that is wrong."""

from __future__ import annotations

import pytest

from headrace.pipeline.columns.fields import check_fields
from headrace.pipeline.errors import OptionError


@pytest.mark.parametrize(
    "text",
    [
        "n bigint",
        "n bigint, user string",
        " n  BIGINT ,price decimal(10, 2)",
        "n: bigint, `a, b` string NOT NULL COMMENT 'one, two'",
        "a array<struct<x:int,y:int>>, m map<string,string>",
        "t timestamp_ntz, v varchar(3), i interval day to second",
        "`od``d` int",
    ],
)
def test_columns_of_spark_are_accepted(text: str) -> None:
    check_fields(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n bigintt", "option fields: column n has the unknown type bigintt: did you mean bigint?"),
        ("n int, user Strng", "option fields: column user has the unknown type Strng: did you mean string?"),
        ("n colour", "option fields: column n has the unknown type colour: types are string, binary, boolean, int,"),
        ("n", "option fields: 'n' is not a name and a type"),
        ("n int,", "option fields: '' is not a name and a type"),
        ("n int, x 3", "option fields: 'x 3' is not a name and a type"),
    ],
)
def test_an_error_names_the_wrong_word(text: str, message: str) -> None:
    with pytest.raises(OptionError) as raised:
        check_fields(text)
    assert message in str(raised.value)
