"""Finds the request that a reply answers. The request decides what is normalised in the reply."""

from __future__ import annotations

from collections import deque

from compat.differences import INTERNAL
from differential.side import is_push
from support.normalise import normalise
from support.replies import Node, parse, render

Argv = list[bytes]
SUBSCRIPTIONS = (b"subscribe", b"unsubscribe", b"psubscribe", b"punsubscribe", b"ssubscribe", b"sunsubscribe")


class Attribution:
    """The requests of one client that have no reply yet, and its open transaction."""

    def __init__(self) -> None:
        self._unanswered: deque[Argv] = deque()
        self._queue: list[Argv] = []
        self._has_subscribed = False

    @property
    def is_waiting(self) -> bool:
        """Whether replies are outstanding."""
        return bool(self._unanswered)

    def sent(self, requests: list[Argv]) -> None:
        """Note requests that were sent."""
        self._unanswered.extend(requests)

    def arrived(self, frame: bytes) -> tuple[Argv, list[Argv]]:
        """The request that this reply answers (empty for a push), and for EXEC the requests that it has run."""
        node = parse(frame)
        if _is_subscription(node):
            self._has_subscribed = True
            return [], []
        if is_push(node):
            return [], []
        while self._has_subscribed and self._unanswered and _word(self._unanswered[0]).lower() in SUBSCRIPTIONS:
            self._unanswered.popleft()
        self._has_subscribed = False
        if not self._unanswered:
            return [], []
        argv = self._unanswered.popleft()
        if frame == b"+QUEUED\r\n":
            self._queue.append(argv)
            return [], []
        ran: list[Argv] = []
        if _word(argv) in (b"EXEC", b"DISCARD", b"RESET"):
            ran, self._queue = self._queue, []
            self._unanswered.extendleft(reversed(_paired(node, ran)[1]))
        return argv, ran


def comparable(frame: bytes, argv: Argv, ran: list[Argv]) -> bytes:
    """The reply with marks in place of what depends on the clock, also in the replies inside EXEC's."""
    if not argv:
        return frame
    node = parse(frame)
    if _word(argv) == b"EXEC" and node.kind == b"*" and node.value and ran:
        found, _ = _paired(node, ran)
        changed = [parse(normalise(render(child), each, INTERNAL)) if each else child for child, each in found]
        return render(Node(node.kind, changed))
    return normalise(frame, argv, INTERNAL)


def _paired(node: Node, ran: list[Argv]) -> tuple[list[tuple[Node, Argv]], list[Argv]]:
    """EXEC's replies, each with the request it answers, and the requests whose replies come after EXEC's.

    The length of Redis' EXEC reply is the number of requests. UNSUBSCRIBE and related commands have one reply for each
    channel, or an error. So they take the places of later replies, which follow after EXEC's reply. The replies of
    UNSUBSCRIBE itself need no normalisation.
    """
    found: list[tuple[Node, Argv]] = []
    left = deque(ran)
    announced_count = 0
    for child in node.value if node.kind == b"*" and node.value else ():
        if not _is_subscription(child):
            found.append((child, left.popleft() if left else []))
            announced_count = 0
            continue
        found.append((child, []))
        announced_count += 1
        if left and announced_count == len(left[0]) - 1:
            left.popleft()
            announced_count = 0
    return found, [each for each in left if found and _word(each).lower() not in SUBSCRIPTIONS]


def _word(argv: Argv) -> bytes:
    return argv[0].upper()


def _is_subscription(node: Node) -> bool:
    if node.kind not in (b"*", b">") or not node.value:
        return False
    return node.value[0].value in SUBSCRIPTIONS
