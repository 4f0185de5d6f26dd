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
    assert [(node.is_plain, len(node.elements)) for node in value.nodes()] == [(False, 1), (True, 1), (False, 1)]
    value.check()


def test_many_elements_get_the_nodes_of_one_after_the_other() -> None:
    rng = random.Random(2)
    elements = [b"%d" % rng.randrange(10**6) * rng.choice((1, 1, 1, 20)) for _ in range(3000)]
    elements[100], elements[2000] = b"x" * 9000, b"y" * 5000
    for limits in (Limits(), Limits(list_node_max=3), Limits(list_node_max=-1)):
        at_once, one_by_one = ListValue(limits), ListValue(limits)
        for at_left in (False, True):
            for value, parts in ((at_once, [elements]), (one_by_one, [[each] for each in elements])):
                for part in parts:
                    (value.push_left if at_left else value.push_right)(part)
        at_once.check()
        assert list(at_once) == elements[::-1] + elements
        assert [node.elements.all() for node in at_once.nodes()] == [node.elements.all() for node in one_by_one.nodes()]


def test_dropped_elements_are_those_of_a_removed_range() -> None:
    rng = random.Random(3)
    for _ in range(300):
        dropped, removed = ListValue(Limits(list_node_max=4)), ListValue(Limits(list_node_max=4))
        elements = [b"%d" % number * rng.choice((1, 80)) for number in range(rng.randrange(1, 40))]
        start = rng.randrange(len(elements))
        count = rng.randrange(len(elements) - start + 1)
        for value in (dropped, removed):
            value.push_right(elements)
        dropped.drop_range(start, count)
        assert removed.remove_range(start, count) == elements[start : start + count]
        assert list(dropped) == list(removed) == elements[:start] + elements[start + count :]
        dropped.check()
        removed.check()
