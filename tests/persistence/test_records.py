"""The codec: whole records with exact offsets, in whatever pieces the bytes come; anything else is damage."""

from __future__ import annotations

import pytest

from headrace.persistence.records import Damage, RecordReader, select_record, timestamp_line
from headrace.protocol.packing import pack_command

COMMANDS = [[b"SELECT", b"0"], [b"XADD", b"s", b"1-1", b"f", b"\r\n*1\r\n#\0" * 3], [b"SET", b"k", b""], [b"DEL", b"k"]]
FILE = b"#TS:1\r\n" + b"".join(pack_command(tuple(each)) for each in COMMANDS[:2]) + b"#t\r\n#note\n"
FILE += b"".join(pack_command(tuple(each)) for each in COMMANDS[2:])


@pytest.mark.parametrize("step", [1, 2, 3, 7, 64, len(FILE)])
def test_records_come_out_whole_in_any_pieces(step: int) -> None:
    reader = RecordReader(len(FILE))
    records = []
    for start in range(0, len(FILE), step):
        records += list(reader.feed(FILE[start : start + step]))
    records += list(reader.finish())
    assert records == COMMANDS
    assert reader.offset == len(FILE)


@pytest.mark.parametrize("cut", range(len(FILE)))
def test_offset_stays_at_the_last_whole_record_or_line(cut: int) -> None:
    ends = [7, 7 + 23, 7 + 23 + len(pack_command(tuple(COMMANDS[1])))]
    ends += [ends[-1] + 4, ends[-1] + 10]
    ends.append(ends[-1] + len(pack_command(tuple(COMMANDS[2]))))
    reader = RecordReader(cut)
    list(reader.feed(FILE[:cut]))
    list(reader.finish())
    assert reader.offset == max((end for end in ends if end <= cut), default=0)


@pytest.mark.parametrize(
    "garbage",
    [
        b"garbage", b"\0", b"+OK\r\n", b":1\r\n", b"$1\r\na\r\n", b"\r\n",
        b"*x\r\n", b"*0\r\n", b"*-1\r\n", b"*" + b"9" * 20, b"*01\r\n$4\r\nPING\r\n",
        b"*1\r\n%1\r\n*1\r\n$1\r\na\r\n$1\r\nb\r\n", b"*1\r\n~1\r\n*0\r\n",
        b"*1\r\n(" + b"9" * 5000 + b"\r\n", b"*1\r\n,x\r\n",
        b"*2\r\n$1\r\na\r\n*2000000000\r\n", b"*1\r\n$01\r\na\r\n", b"*1\r\n$" + b"9" * 20, b"*1\r\n$1\r\na\0\0",
        b"*1\r\n:5\r\n", b"*1\r\n*1\r\n$1\r\na\r\n", b"*1\r\n$1\r\nab\r\n", b"*1\r\n$x\r\n",
    ],
)  # fmt: skip
def test_damage_names_the_offset_it_begins_at(garbage: bytes) -> None:
    good = pack_command((b"PING",))
    data = good + garbage + good * 3
    reader = RecordReader(len(data))
    records = list(reader.feed(data))
    with pytest.raises(Damage) as raised:
        records += reader.finish()
    assert raised.value.offset == len(good)


def test_count_beyond_the_file_reserves_nothing() -> None:
    reader = RecordReader(100)
    assert list(reader.feed(b"*2000000000\r\n$1\r\na\r\n")) == []
    assert reader.is_torn
    assert reader.offset == 0


def test_value_beyond_the_file_is_not_waited_for() -> None:
    reader = RecordReader(100)
    assert list(reader.feed(b"*1\r\n$1000000\r\na")) == []
    assert reader.is_torn


def test_records_the_log_makes_itself() -> None:
    assert select_record(12) == b"*2\r\n$6\r\nSELECT\r\n$2\r\n12\r\n"
    assert timestamp_line(17) == b"#TS:17\r\n"
