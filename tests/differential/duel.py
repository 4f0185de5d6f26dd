"""Two servers run the same sequence of requests, and every byte of their replies is compared.

A sequence has three clients on each server. Consecutive steps of one client form a batch, which is sent as a pipeline.
After each batch, every client must have received the same from both servers. At the end every key is compared.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from itertools import groupby, zip_longest
from typing import TypeVar

from compat.differences import REMOVALS, SENT_ALONE, TREE_SHAPE, is_known_difference
from differential.attribution import Argv, Attribution, comparable
from differential.openings import Request, Step
from differential.reach import Reach
from differential.side import CLOSED, RESP3_CLIENTS, SET_UP, Frames, Side
from differential.values import CLIENTS, Dump
from support.comparison import first_difference
from support.lines import quote
from support.normalise import agree, normalise
from support.replies import parse, render

# The largest number of steps in a batch.
BATCH_STEPS_MAX = 8
# A reply that only one server has sent counts as missing after this time. Redis runs FLUSHALL in a thread.
PATIENCE_S = 5.0
# This time while a failure is shrunk, which takes hundreds of attempts.
IMPATIENCE_S = 0.1

PATTERN_MESSAGE = re.compile(rb"[*>]4\r\n\$8\r\npmessage\r\n")
ENDS_OF_TRANSACTIONS = (b"EXEC", b"DISCARD", b"RESET")


Answer = TypeVar("Answer")


class Mismatch(AssertionError):
    """The servers differ, or one has stopped answering."""


class Duel:
    """Both servers, and the sequence that they run."""

    def __init__(self, headrace: Side, redis: Side) -> None:
        self.headrace, self.redis = headrace, redis
        self.patience_s = PATIENCE_S
        self.reach = Reach()
        # Clients that the previous sequence left in an unknown state.
        self._waiting: set[str] = set()
        # The batches that were sent, with their clients.
        self._sent: list[tuple[str, list[Argv]]] = []

    def begin(self) -> None:
        """Empty servers and fresh clients."""
        self._both(
            lambda side: side.begin(self._waiting)
        )  # a server that ends here does so because of earlier requests
        self._waiting = set(CLIENTS)
        self._attributions = {name: Attribution() for name in CLIENTS}
        self._sent = []
        self._batch: list[Request] = []
        self._speaker = CLIENTS[0]
        self._queuing: set[str] = set()
        # Whether entries may have been removed.
        self._has_removed = False

    def step(self, client: str, request: Request) -> None:
        """Add one request of one client to a batch, unless Redis would not reply to it. A full batch is run.

        Raises Mismatch for any request of the batch.
        """
        if request[0] == b"MULTI":
            self._queuing.add(client)
        elif request[0] in ENDS_OF_TRANSACTIONS:
            self._queuing.discard(client)
        elif request[0] in SENT_ALONE:
            self._play()
            if client in self._queuing or self._attributions[client].is_waiting:
                return
        if client != self._speaker or len(self._batch) >= BATCH_STEPS_MAX or request[0] in SENT_ALONE:
            self._play()
        self._speaker = client
        self._batch.append(request)

    def end(self) -> None:
        """Run the last batch, and compare the datasets. Raises Mismatch."""
        self._play()
        self._compare_states()
        self._waiting = {name for name, each in self._attributions.items() if each.is_waiting}

    def play(self, steps: list[Step]) -> None:
        """Run a whole sequence. Raises Mismatch."""
        self.begin()
        for client, request in steps:
            self.step(client, request)
        self.end()

    # --------------------------------------------------------------------------------------------

    def _play(self) -> None:
        """Send the batch to both servers, and compare what every client has received."""
        if not self._batch:
            return
        batch, self._batch = self._batch, []
        ours_sent, sent = self._resolved(batch)
        self._sent.append((self._speaker, sent))
        self._both(lambda side: side.send(self._speaker, ours_sent if side is self.headrace else sent))
        self._attributions[self._speaker].sent(sent)
        ours, theirs = self._both(lambda side: side.settle())
        deadline = time.monotonic() + self.patience_s
        while _counts(ours) != _counts(theirs) and time.monotonic() < deadline:
            our_rest, their_rest = self._both(lambda side: side.settle())
            _join(ours, our_rest)
            _join(theirs, their_rest)
        for name in CLIENTS:
            self._compare(name, ours.get(name, []), theirs.get(name, []))

    def _resolved(self, batch: list[Request]) -> list[list[Argv]]:
        """The words for Headrace, and those for Redis.

        Redis gets the values that Headrace has serialized: it must understand them, and it cannot restore all of its
        own. A node whose last entry was deleted before XADD MINID removed the others is "Bad data format" to it.
        """
        ours, theirs = self._both(lambda side: side.resolve(batch))
        for request, our_words, their_words in zip(batch, ours, theirs, strict=True):
            for index, token in enumerate(request):
                if isinstance(token, Dump):
                    their_words[index] = our_words[index]
        return [ours, theirs]

    def _both(self, ask: Callable[[Side], Answer]) -> list[Answer]:
        """The result of `ask` for each server. Raises Mismatch, after a restart, if a server ends or sends no RESP."""
        answers = []
        for side in (self.headrace, self.redis):
            try:
                answers.append(ask(side))
            except (OSError, ValueError, AssertionError) as error:
                raise Mismatch(f"{error!r}; {side.restart()}\n\n{self._as_script()}") from error
        return answers

    def _compare(self, client: str, ours: list[bytes], theirs: list[bytes]) -> None:
        attribution = self._attributions[client]
        ours, theirs = _by_pattern(ours), _by_pattern(theirs)
        is_served = client != self._speaker
        for our_frame, their_frame in zip_longest(ours, theirs, fillvalue=b"(nothing)\r\n"):
            known = their_frame if their_frame != b"(nothing)\r\n" else our_frame
            argv, ran = attribution.arrived(known) if known != CLOSED else ([], [])
            if known != CLOSED:
                self.reach.answered(argv, ran, known)
                if is_served and argv:
                    self.reach.served(argv, known)
                    is_served = False  # later frames answer requests after the one that waited
                self._has_removed = self._has_removed or _may_have_removed([argv, *ran], known)
            if our_frame == their_frame:
                continue
            try:
                seen = [comparable(frame, argv, ran) for frame in (our_frame, their_frame)]
            except (ValueError, IndexError, TypeError, AttributeError):
                seen = [our_frame, their_frame]  # an unusual shape, or no reply
            seen = self._without_shapes(seen)
            line = b" ".join(argv).decode("latin-1")
            if not agree(*seen) and not is_known_difference(line, our_frame):
                self._fail(f"{client}> {quote(argv)}", *seen)

    def _compare_states(self) -> None:
        for (ours_asked, ours), (theirs_asked, theirs) in zip_longest(
            *self._both(lambda side: side.state()), fillvalue=([b"(nothing)"], b"+(nothing)\r\n")
        ):
            if ours_asked != theirs_asked:
                self._fail("keys at the end", quote(ours_asked).encode(), quote(theirs_asked).encode())
            self.reach.left(theirs_asked, theirs)
            if ours != theirs:
                seen = self._without_shapes([normalise(frame, ours_asked) for frame in (ours, theirs)])
                if not agree(*seen):
                    self._fail(f"at the end: {quote(ours_asked)}", *seen)

    def _without_shapes(self, frames: list[bytes]) -> list[bytes]:
        """The frames without what differs after entries were removed (compatibility.md, `XINFO STREAM`)."""
        if not self._has_removed:
            return frames
        return [TREE_SHAPE.sub(rb"\1:<n>", frame) for frame in frames]

    def _fail(self, where: str, ours: bytes, theirs: bytes) -> None:
        raise Mismatch(f"{where}\n{first_difference(ours, theirs)}\n\n{self._as_script()}")

    def _as_script(self) -> str:
        """The sequence as blocks for redis-cli. Paste each block into the terminal of its client.

        Lines that begin with a colon are comments: redis-cli does not send them.
        """
        lines = [":client control", *map(quote, SET_UP)]
        lines += [line for name in RESP3_CLIENTS for line in (f":client {name}", "HELLO 3")]
        for client, batch in self._sent:
            pipelined = f", {len(batch)} requests in one pipeline" if len(batch) > 1 else ""
            lines += [f":client {client}{pipelined}", *map(quote, batch)]
        return "\n".join(lines)


def _by_pattern(frames: list[bytes]) -> list[bytes]:
    """The frames with the copies of one message sorted.

    A client gets one copy for each of its patterns that match, in the order of a hash table.
    """
    ordered: list[bytes] = []
    for message, group in groupby(frames, _message_of):
        copies = list(group)
        ordered += sorted(copies) if message else copies
    return ordered


def _message_of(frame: bytes) -> bytes:
    """Channel and message of a frame that a pattern matched; empty for any other frame."""
    if not PATTERN_MESSAGE.match(frame):
        return b""
    _, _, channel, message = parse(frame).value
    return render(channel) + render(message)


def _may_have_removed(requests: list[Argv], reply: bytes) -> bool:
    would_change_nothing = reply[:1] == b"-" or reply == b":0\r\n"
    return not would_change_nothing and any(word.upper() in REMOVALS for argv in requests for word in argv)


def _counts(frames: Frames) -> dict[str, int]:
    return {name: len(each) for name, each in frames.items()}


def _join(frames: Frames, more: Frames) -> None:
    for name, each in more.items():
        frames.setdefault(name, []).extend(each)
