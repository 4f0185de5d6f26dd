"""Plays cells: a state, what is done in it by whom, and how the server is stopped; and holds the rules.

    play(Cell("rewriting", b"always", (Step(acts=(act,)),), stop="kill"))

Rules, by the letters that failures name:

    told       what a reply reports is on the disk as `appendfsync` promises, when it leaves and after a restart
    refused    a request that was answered with an error has changed nothing
    error      no internal error is answered or logged, and nothing is raised out of a callback
    replies    every client has its own replies in order
    client     the requests of a pipeline run as the client that sent them
    left       no state is left for good
    lock       no other server may lock a folder in which this one writes
    restart    a restart finds what was served
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from crossing.acts import ALONE, OWN_ID, READER_ID, SILENT, UNLOGGED, WAITER_ID, Act
from crossing.fixture import disk_of
from crossing.kept_files import ACL_PATH, CONFIG_PATH, SETTINGS_FOLDER, directives_of, users_of
from crossing.scene import Peer, Request, Scene, Violation, copied, fixture_keys, recovered, tokens_of
from crossing.states import BEHIND, MULTI, SCRIPT, STATES, Stage
from headrace.commands.clients.client import Client
from headrace.server.storage.log_life import LogState
from support.digest import Digest, digest_of
from support.replies import Node
from support.simulated_disk import Call, SimulatedDisk

STOPS: Final = ("SIGTERM", "SHUTDOWN", "kill")
CRASH_CALLS_MAX: Final = 12
CALM_MS: Final = 1500
WAITS_MAX: Final = 12
"""So often that time passes again while a client still waits: a pipeline may hold several requests that do."""
RETRY_MS: Final = 61_000
# Share of the cells of other states than `serving` after which changed settings are saved and read.
SAVED_SHARE: Final = 0.2
MANY_COUNT: Final = 1100
"""Requests after a blocked one: more than a connection keeps."""
BUSY: Final = {
    "starting", "rewrite beginning", "rewrite about to swap the manifest", "snapshot about to end", "replayed",
    "shutting down", "shutting down by another client",
}  # fmt: skip
"""States in which something else changes in the turn of the act."""
SELECTING: Final = {"SELECT", "RESET"}
MADE_ANEW: Final = {b"stream-idmp-duration", b"stream-idmp-maxsize"}
"""Directives that each stream keeps as they were when it was made: a replay makes it anew, as in Redis."""
FENCE: Final = b"fence%d"


# Of a difference: characters shown before it, and in all.
SHOWN_BEFORE: Final = 60
SHOWN_SIZE: Final = 200


@dataclass(frozen=True)
class Step:
    """What one client sends."""

    acts: tuple[Act, ...]
    client: int = 0
    mode: str = ""
    """Empty for the state's own."""

    def __str__(self) -> str:
        return f"client {self.client} {self.mode}: " + "; ".join(act.name for act in self.acts)


@dataclass(frozen=True)
class Cell:
    """One crossing."""

    state: str
    policy: bytes
    steps: tuple[Step, ...]
    stop: str = "kill"
    seed: int = 0

    @property
    def name(self) -> str:
        """What `ONLY=` takes."""
        return f"{self.state}/{self.steps[0].acts[0].name}"

    def __str__(self) -> str:
        lines = [f"state: {self.state}   appendfsync {self.policy.decode()}   stop: {self.stop}   seed: {self.seed}"]
        for step in self.steps:
            lines += [f"  client {step.client} ({step.mode or STATES[self.state].mode})"]
            lines += [f"    {act.name}   {' '.join(repr(word)[1:] for word in act.request)}" for act in step.acts]
        return "\n".join(lines)


@dataclass
class Sent:
    """What a step sent, and what is to come back."""

    step: Step
    mode: str
    peer: Peer
    fences: list[bytes]
    is_exec: bool = False

    def without_openings(self, replies: list[Node]) -> list[Node]:
        """The replies to the acts themselves, as far as they have come."""
        found, place = [], 0
        for act in self.step.acts:
            place += len(act.opening)
            found += replies[place : place + 1]
            place += 1
        return found + replies[place:]

    @property
    def requests_count(self) -> int:
        """How many requests the acts are, with those that go before them."""
        return sum(len(act.opening) + 1 for act in self.step.acts)


TRANSACTION_FRAME_COUNT: Final = 5
"""Requests of the machine's own in a transaction: a write and a read before the acts, three requests after them."""

# How often what was played with success in this process.
ACCEPTED: Final[Counter[str]] = Counter()


def play(cell: Cell) -> None:
    """Play a cell. Raises Violation."""
    Play(cell).run()


class Play:
    """One playing of a cell."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.state = STATES[cell.state]
        disk, clock = disk_of(self.state.disk)
        self.rnd = Random(f"{cell.seed} {cell.name} {cell.policy!r} {cell.stop}")
        self.scene = Scene(disk, cell.policy, clock, **self.state.directives)
        self.stage = Stage(self.scene)
        self.stage.look_at_crashes = self._look_at_crashes
        self.initial = disk.after_kill()
        self._fences_count = 0
        self._crash_in = self.rnd.randrange(CRASH_CALLS_MAX)
        self._crashed: tuple[SimulatedDisk, set[bytes], bytes] | None = None
        self._is_unlogged = False
        self._has_faults = False

    # -- the course --------------------------------------------------------------------------------

    def run(self) -> None:
        """From the start to what the restart finds."""
        scene = self.scene
        with scene.playing():
            steps = self.state.run(self.stage)
            try:
                next(steps)
                self._require("before the act")
                self._act()
                self._require("after the act")
                self._look_at_crashes()
                self._end_state(steps)
                self._require("after the state")
                if not scene.has_ended:
                    self._calm()
                    self._require("when all was over")
                if not scene.has_ended:
                    self._probe()
                    self._stop()
                self._check_ended()
                self._require("at the end")
                ACCEPTED.update(subject for act in self._accepted() for subject in act.subjects)
            except AssertionError as error:
                text = str(error)
                if scene.failures and scene.failures[0] not in text:
                    text += f" ({scene.failures[0]})"
                raise Violation(f"{text}\n{self.cell}") from error
            finally:
                steps.close()

    def _require(self, when: str) -> None:
        if self.scene.failures:
            raise Violation(f"{self.scene.failures[0]}, {when}")

    # -- the act -----------------------------------------------------------------------------------

    def _act(self) -> None:
        scene, stage = self.scene, self.stage
        scene.promises = scene.promises and stage.is_log_promised
        before = self._observed()
        was_awaiting_sync = scene.server.log_keeper.state is LogState.AWAITING_SYNC
        scene.on_boundary = self._count_down
        sent = [each for step in self.cell.steps for each in self._send(step)]
        if not scene.server.context.loading and self.cell.state != "starting":
            stage.company.write()
        scene.loop.turn()
        stage.meanwhile()
        scene.settle()
        scene.on_boundary = lambda call: None
        self._sent = sent
        self._is_ended_by_act = scene.has_ended
        after = self._observed()
        self._check_saved(before, after)
        if len(sent) == len(self.cell.steps) and all(map(self._is_refused, sent)) and self._only_acts_change():
            if scene.has_ended:
                del before["the folder"]  # a server that ends unlocks its folder
            if was_awaiting_sync and scene.server.log_keeper.state is not LogState.AWAITING_SYNC:
                del before["the manifest"]  # the rewrite was waiting for the sync that came before the refusal
            for what, value in before.items():
                if after[what] != value:
                    raise Violation(
                        f"refused: the request was refused, and {what} changed: {changes(value, after[what])}"
                    )

    def _check_saved(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        """What was answered with OK to CONFIG REWRITE and ACL SAVE is on the disk, unless it has changed meanwhile."""
        accepted = {act.row_name for act, reply in self._answered() if reply.kind == b"+"}
        is_same = {what: before[what] == after[what] for what in ("the configuration", "the users")}
        has_acl_file = bool(self.scene.server.config.aclfile)
        self.scene.kept_files.require(
            directives="CONFIG|REWRITE" in accepted and is_same["the configuration"],
            users=("ACL|SAVE" if has_acl_file else "CONFIG|REWRITE") in accepted and is_same["the users"],
        )

    def _answered(self) -> Iterator[tuple[Act, Node]]:
        """Acts with their replies, as far as replies can be assigned to acts."""
        for sent in self._sent:
            replies = self._replies_to(sent) or []
            if len(replies) == len(sent.step.acts):
                yield from zip(sent.step.acts, replies, strict=True)

    def _count_down(self, call: Call) -> None:
        """At one moment of the disk within the act, keep what a crash would leave."""
        self._crash_in -= 1
        if self._crash_in == -1 and self.scene.promises:
            held = tokens_of(digest_of(self.scene.server.store))
            self._crashed = (self.scene.crashed_disk(), set(self.scene.told) & held, self._log_folder())

    def _log_folder(self) -> bytes:
        """The folder in which the server writes now, which CONFIG SET dir may be about to leave."""
        server = self.scene.server
        if server.log is None:
            return bytes(server.config.dir)
        return os.fsencode(os.path.dirname(os.path.dirname(server.log.manifest_path)))

    def _only_acts_change(self) -> bool:
        """Whether nothing but the requests of the steps can have changed anything."""
        return self.cell.state not in BUSY and all(act.request for step in self.cell.steps for act in step.acts)

    def _send(self, step: Step) -> Iterator[Sent]:
        """Send what a step has; what is to be looked at later."""
        scene, mode = self.scene, step.mode or self.state.mode
        actor = self.stage.actors[step.client % len(self.stage.actors)]
        acts: list[Act] = []
        for act in step.acts:
            if act.row_name in UNLOGGED and b"POPULATE" in act.request:
                self._is_unlogged = True
            if act.request:
                acts.append(act)
            elif act.signal:
                scene.raise_signal(act.signal)
            else:
                yield from self._pipeline(step, mode, actor, acts)
                acts = []
                self._connect(act.connection, actor)
        yield from self._pipeline(step, mode, actor, acts)

    def _ids(self, actor: Peer) -> dict[bytes, int]:
        company = self.stage.company
        return {OWN_ID: actor.id, READER_ID: company.reader.id, WAITER_ID: company.waiter.id}

    def _fence(self) -> bytes:
        self._fences_count += 1
        return FENCE % self._fences_count

    def _pipeline(self, step: Step, mode: str, actor: Peer, acts: list[Act]) -> Iterator[Sent]:
        """Send these acts between fences."""
        if not acts or actor.is_closed or actor.wire.has_ended:
            return
        scene = self.scene
        step = replace(step, acts=tuple(acts))
        requests = [each for act in acts for each in (*act.opening, act.words(self._ids(actor)))]
        fences = [self._fence() for _ in range(4)]
        before, after = scene.token(), scene.token()
        info = (b"CLIENT", b"INFO")
        echo = [(b"ECHO", fence) for fence in fences]
        if mode == MULTI:
            inner = [*_written_and_read(before), *requests, *_written_and_read(after), info]
            assert len(inner) == len(requests) + TRANSACTION_FRAME_COUNT
            actor.ask(echo[0], (b"MULTI",), *inner, (b"EXEC",), echo[3])
            yield Sent(step, mode, actor, fences, is_exec=True)
            return
        if mode == SCRIPT:
            requests = [(b"EVAL", b"return redis.call(unpack(ARGV))", b"0", *request) for request in requests]
        head: list[Request] = []
        if mode == BEHIND:
            head = [(b"XREAD", b"BLOCK", b"200", b"STREAMS", b"~gate", b"$")]
        actor.ask(*head, echo[0], *_written_and_read(before), echo[1])
        if any(act.row_name in ALONE for act in acts):
            scene.turn()
        actor.ask(*requests, echo[2], *_written_and_read(after), info, echo[3])
        yield Sent(step, mode, actor, fences)

    def _connect(self, kind: str, actor: Peer) -> None:
        if actor.wire.has_ended and kind != "connect":
            return  # a socket whose peer has sent the end takes no more
        if kind == "connect":
            if self.scene.network.is_listening:
                self.scene.connect("newcomer").ask((b"PING",))
        elif kind == "close":
            actor.ask((b"SET", b"~closing", b"1"))
            actor.wire.leave()
        elif kind == "half close":
            actor.ask((b"SET", b"~closing", b"1"))
            actor.wire.end()
        else:
            actor.ask((b"XREADGROUP", b"GROUP", b"g", b"dead", b"BLOCK", b"0", b"STREAMS", b"jobs", b">"))
            self.scene.turn()
            actor.ask(*[(b"PING",)] * MANY_COUNT)
            self.scene.turn()
            actor.wire.leave()

    # -- what came back ----------------------------------------------------------------------------

    def _replies_to(self, sent: Sent) -> list[Node] | None:
        """The replies to the acts of a step; None if they have not come, or cannot be assigned to acts."""
        peer = sent.peer
        if sent.is_exec:
            start, end = peer.reply_after(sent.fences[0]), peer.reply_after(sent.fences[3])
            if start < 0 or end < 0:
                return None
            answers = _answers_of_transaction(peer.replies[start : end - 1])
            if len(answers) != TRANSACTION_FRAME_COUNT + sent.requests_count:
                return None
            return sent.without_openings(answers[2 : 2 + sent.requests_count])
        start, end = peer.reply_after(sent.fences[1]), peer.reply_after(sent.fences[2])
        return sent.without_openings(peer.replies[start : end - 1]) if 0 <= start < end else None

    def _accepted(self) -> Iterator[Act]:
        """Acts that have been answered with something else than an error, or need no answer."""
        if self._is_ended_by_act:
            yield from (
                act for step in self.cell.steps for act in step.acts if act.row_name == "SHUTDOWN" or act.signal
            )
            return
        yield from (act for step in self.cell.steps for act in step.acts if not act.request)
        for sent in self._sent:
            acts, replies = sent.step.acts, self._replies_to(sent)
            start = sent.peer.reply_after(sent.fences[1])
            if replies is not None and len(replies) == len(acts):
                yield from (act for act, reply in zip(acts, replies, strict=True) if _has_run(reply))
            elif len(acts) == 1 and start >= 0:
                following = sent.peer.replies[start:][:1]
                # Without a reply it may have blocked or silenced the client. CONFIG SET does neither: the server ended.
                if _has_run(following[0]) if following else acts[0].row_name != "CONFIG|SET":
                    yield acts[0]

    def _is_refused(self, sent: Sent) -> bool:
        """Whether all that the step did was refused, so that nothing may have changed."""
        replies = self._replies_to(sent)
        if not replies or any(act.row_name.startswith(("EVAL", "EXEC", "FCALL")) for act in sent.step.acts):
            return False
        return all(reply.kind == b"-" for reply in replies) and len(replies) == len(sent.step.acts)

    def _observed(self) -> dict[str, Any]:
        """All that a refused request must leave as it is."""
        server = self.scene.server
        log = server.log
        manifest = next(
            (bytes(i.content) for p, i in self.scene.disk.names.items() if p.endswith(".manifest") and i), b""
        )
        return {
            "the dataset": fixture_keys(digest_of(server.store)),
            "the configuration": directives_of(server.config),
            "the log": None if log is None else (id(log), log.is_starting),
            "the manifest": manifest,
            "the users": users_of(server.accounts.users),
            "the configuration file": self.scene.disk.read(CONFIG_PATH),
            "the ACL file": self.scene.disk.read(ACL_PATH),
            "the folder": (self.scene.system.folder, sorted(self.scene.system.locks)),
            "the pause": server.dispatcher.pause.end_ms,
        }

    # -- crashes while the state lasts ---------------------------------------------------------------

    def _look_at_crashes(self) -> None:
        """What a crash within the act, and one now, would have left."""
        scene = self.scene
        if self.state.is_refused:
            return
        if self._crashed is not None:
            disk, told, folder = self._crashed
            config = copied(scene.server.config)
            config.appendonly, config.dir = True, folder  # as they were then
            lost = told - tokens_of(recovered(disk, scene.clock, config))
            if lost:
                raise Violation(f"told: a crash within the act loses {sorted(lost)}")
        if scene.has_ended:
            return
        found = scene.recover(scene.crashed_disk())
        if not self._is_log_kept():
            return
        if scene.server.context.loading or not scene.is_serving:
            served = recovered(self.initial.after_kill(), scene.clock, copied(scene.config))
        else:
            served = digest_of(scene.server.store)
        self._compare(served, found, "a crash behind the act")

    def _is_log_kept(self) -> bool:
        """Whether a crash now must leave all that is served."""
        server = self.scene.server
        return (
            self.stage.is_log_promised
            and not self._is_unlogged
            and bool(server.config.appendonly)
            and not self._log_was_turned()
            and server.dispatcher.admission.write_error is None
            and not self.scene.is_disk_failing
            and not self._has_held_output()
        )

    def _has_held_output(self) -> bool:
        return bool(self.scene.server.dispatcher.units.has_unflushed_records)

    def _log_was_turned(self) -> bool:
        """Whether an act that was taken has turned the log off, or on after that."""
        for sent in self._sent:
            for act in sent.step.acts:
                wanted = dict(zip(act.request[2::2], act.request[3::2], strict=False))
                if act.row_name == "CONFIG|SET" and wanted.get(b"appendonly") == b"no" and b"bind" not in wanted:
                    return True
        return False

    def _compare(self, served: Any, found: Any, when: str) -> None:
        if any(act.request[2:3] and act.request[2] in MADE_ANEW for step in self.cell.steps for act in step.acts):
            served, found = without_settings(served), without_settings(found)
        if served != found:
            raise Violation(f"restart: {when} does not leave what was served: {changes(served, found)}")

    # -- the end of the state, and of the server -----------------------------------------------------

    def _end_state(self, steps: Iterator[None]) -> None:
        next(steps, None)
        self.scene.settle()

    def _calm(self) -> None:
        """The cause is over: time passes, and those that waited for ever leave."""
        scene = self.scene
        scene.pass_time(CALM_MS)
        for _ in range(WAITS_MAX):
            if scene.has_ended or not any(each.peer.connection.must_wait for each in self._sent):
                break
            scene.pass_time(CALM_MS)
        for each in (*self._sent,):
            self._check_replies(each)
        for peer in scene.peers:
            if peer.name not in ("director",) and not peer.name.startswith("writer"):
                peer.wire.reads = True
                peer.wire.leave()
        scene.pass_time(300)
        if not scene.has_ended and scene.server.snapshots.rewrite.retry_ms > scene.clock():
            scene.jump(RETRY_MS)
            scene.pass_time(500)

    def _check_replies(self, sent: Sent) -> None:
        """The replies of a step have come, in order, and are its own."""
        peer = sent.peer
        is_odd = bool(self._rows_of(peer) & SILENT)
        if peer.is_closed or self.scene.has_ended or is_odd or peer.wire.has_ended:
            return
        if _waits_long(peer.connection.client):
            return  # as it has asked for
        places = [peer.reply_after(fence) for fence in (sent.fences if not sent.is_exec else sent.fences[::3])]
        if -1 in places or places != sorted(places):
            raise Violation(f"replies: those of {sent.peer.name} have not come, or not in order: {peer.replies[-8:]}")
        for node in self._infos(sent):
            self._check_identity(sent, bytes(node.value))

    def _rows_of(self, peer: Peer) -> set[str]:
        """The commands that a client has sent, by the names of their rows."""
        return {row for each in self._sent if each.peer is peer for act in each.step.acts for row in act.row_names}

    def _infos(self, sent: Sent) -> Iterator[Node]:
        for reply in sent.peer.replies[max(sent.peer.reply_after(sent.fences[0]), 0) :]:
            for node in reply.value if isinstance(reply.value, list) else [reply]:
                if (
                    node.kind in b"$="
                    and isinstance(node.value, bytes)
                    and b"id=" in node.value
                    and b" laddr=" in node.value
                ):
                    if any(act.row_name == "CLIENT|LIST" for act in sent.step.acts) and node.value.count(b"id=") > 1:
                        continue
                    yield node

    def _check_identity(self, sent: Sent, line: bytes) -> None:
        rows = self._rows_of(sent.peer)
        found = dict(word.split(b"=", 1) for word in line.removeprefix(b"txt:").split() if b"=" in word)
        if int(found[b"id"]) != sent.peer.id:
            raise Violation(f"client: {sent.peer.name} (ID {sent.peer.id}) ran as the client {int(found[b'id'])}")
        if not rows & SELECTING and found[b"db"] != b"0":
            raise Violation(f"client: {sent.peer.name} is in database {found[b'db'].decode()}")

    def _probe(self) -> None:
        """Nothing is left of the state: what clients and the server can do is what they could before."""
        scene, server = self.scene, self.scene.server
        left = {
            "a load": server.context.loading,
            "a pause": server.dispatcher.pause.end_ms,
            "a freeze": any(db.frozen or db.keeps_expired for db in server.store.databases),
            "clients that are held": list(server.dispatcher.pause.held),
            "clients that wait": len(server.dispatcher.waiters),
            "a client without its turn": list(server.dispatcher.resumable),
            "output that is not sent": list(server.dispatcher.outgoing),
            "an image": server.context.image,
            "a job": server.snapshots.runner.job,
            "that nothing may block": not server.context.may_block,
            "records that are not written": server.dispatcher.units.has_unflushed_records,
        }
        found = [what for what, value in left.items() if value]
        if found:
            raise Violation(f"left: the server is left with {', '.join(found)}")
        if server.config.maxmemory or not scene.network.is_listening:
            return
        has_log = server.log is not None and not server.log.is_starting
        # A backup keeps a log where there is none.
        is_for_backup = has_log and server.backups.backup.is_running
        if has_log != bool(server.config.appendonly) and not is_for_backup:
            raise Violation(f"left: appendonly is {server.config.appendonly}, and the log is {server.log}")
        try:
            prober = scene.connect("prober")
        except ConnectionRefusedError:
            raise Violation("left: no client is let in") from None
        if server.config.requirepass:
            prober.ask((b"AUTH", server.config.requirepass))
            scene.settle()
            prober.replies.clear()
        scene.promises = bool(server.config.appendonly)
        token = scene.token()
        prober.ask((b"SET", b"~probe", token), (b"GET", b"~probe"), (b"XADD", b"~probes", b"*", b"v", token))
        if server.config.appendonly:
            prober.ask((b"WAITAOF", b"1", b"0", b"30000"))
        scene.pass_time(2200)
        if prober.is_closed and len(server.dispatcher.sessions) >= server.config.maxclients - 1:
            return
        values = [reply.value for reply in prober.replies]
        wanted = [b"OK", token, values[2] if len(values) > 2 else None]
        if values[:3] != wanted or prober.replies[2].kind != b"$":
            raise Violation(f"left: a write and a read get {prober.replies}")
        is_synced = bool(server.config.appendonly) and server.config.appendfsync != b"no"
        if is_synced and (len(values) < 4 or prober.replies[3].kind != b"*" or values[3][0].value != b"1"):
            raise Violation(f"left: WAITAOF of a write gets {prober.replies[3:]}")
        if scene.kept_files.has_news and (self.cell.state == "serving" or self.rnd.random() < SAVED_SHARE):
            self._save_settings()

    def _save_settings(self) -> None:
        """What CONFIG REWRITE and ACL SAVE write is what a start finds."""
        scene = self.scene
        requests = [(b"CONFIG", b"REWRITE")]
        if scene.server.config.aclfile:
            requests.append((b"ACL", b"SAVE"))
        keeper = scene.connect("keeper")
        if scene.server.config.requirepass:
            keeper.ask((b"AUTH", scene.server.config.requirepass))
            scene.settle()
            keeper.replies.clear()
        keeper.ask(*requests)
        scene.settle()
        if [reply.value for reply in keeper.replies] != [b"OK"] * len(requests):
            raise Violation(f"left: {requests} get {keeper.replies}")
        scene.kept_files.require(directives=True, users=True)
        strangers = set(scene.disk.names_in(SETTINGS_FOLDER)) - set(map(os.path.basename, (CONFIG_PATH, ACL_PATH)))
        if strangers:
            raise Violation(f"left: {sorted(strangers)} beside the configuration file")

    def _stop(self) -> None:
        scene = self.scene
        if self.cell.stop == "kill":
            return
        is_kept_out = True
        if self.cell.stop == "SHUTDOWN" and scene.network.is_listening:
            stopper = scene.connect("stopper")
            if scene.server.config.requirepass:
                stopper.ask((b"AUTH", scene.server.config.requirepass))
            stopper.ask((b"SHUTDOWN",))
            scene.pass_time(50)
            is_kept_out = stopper.is_closed  # by `maxclients`, say
        if is_kept_out and not scene.has_ended:
            scene.raise_signal(15)
            scene.on_boundary = self._signal_again
            scene.pass_time(50)
            scene.on_boundary = lambda call: None
        if not scene.has_ended and not self.stage.is_log_promised:
            return
        if not scene.has_ended and scene.network.is_listening:
            raise Violation(f"left: {self.cell.stop} does not end the server")

    def _signal_again(self, call: Call) -> None:
        """Another SIGTERM while the first brings everything to disk, which changes nothing."""
        self.scene.on_boundary = lambda call: None
        self.scene.raise_signal(15)

    def _check_ended(self) -> None:
        """What a restart finds."""
        scene = self.scene
        if scene.task.done() and not scene.task.cancelled() and scene.task.exception() is not None:
            raise Violation(f"error: the server ended by {scene.task.exception()!r}")
        for path, content in self.stage.untouched.items():
            if scene.disk.read(path) != content:
                raise Violation(f"told: {path} was changed, and it may be all that is left of what was answered")
        if self.state.is_refused:
            if scene.told:
                raise Violation(f"told: {scene.told} though the load failed")
            if any(token for token in tokens_of(digest_of(scene.server.store))):
                raise Violation("told: a write was run though the load failed")
            return
        config = copied(scene.server.config)
        disk = scene.disk.after_kill() if scene.has_ended else scene.crashed_disk()
        found = recovered(disk, scene.clock, config)
        served = digest_of(scene.server.store)
        if config.appendonly:
            lost = (set(scene.told) & tokens_of(served)) - tokens_of(found)
            if lost:
                raise Violation(f"told: {sorted(lost)} of {sorted({scene.told[each] for each in lost})} are gone")
        if not self._is_whole_at_end(config):
            return
        if not scene.has_served:
            served = recovered(self.initial.after_kill(), scene.clock, copied(scene.config))
        self._compare(served, found, f"the end by {self.cell.stop}")

    def _is_whole_at_end(self, config: Any) -> bool:
        """Whether a restart must find all that was served last."""
        server = self.scene.server
        if server.exit_code or server.dispatcher.admission.write_error is not None:
            return False
        if config.appendonly:
            return not self._is_unlogged
        # A stop in good order saves everything, unless SHUTDOWN NOSAVE asks for less. A SAVE before it is not enough.
        if any(b"NOSAVE" in act.request for sent in self._sent for act in sent.step.acts):
            return False
        return server.has_saved_to_stop and self.scene.has_served


def _written_and_read(token: bytes) -> tuple[Request, Request]:
    """A write, and a read whose reply shows it."""
    key = b"~a:" + token.strip(b"~")
    return (b"SET", key, token), (b"GET", key)


def _answers_of_transaction(replies: list[Node]) -> list[Node]:
    """The answer to each request between MULTI and EXEC: that of EXEC, or its own if it was not queued.

    `replies` begin with that to MULTI and end with that to EXEC. Empty if answers cannot be assigned to requests.
    """
    if len(replies) < 2 or replies[0].kind != b"+":
        return []
    *own, last = replies[1:]
    is_queued = [reply.value == b"QUEUED" for reply in own]
    if last.kind == b"-":
        executed = [last] * sum(is_queued)
    elif last.kind == b"*" and last.value is not None and len(last.value) == sum(is_queued):
        executed = last.value
    else:
        return []
    following = iter(executed)
    return [next(following) if queued else reply for queued, reply in zip(is_queued, own, strict=True)]


def without_settings(digest: Digest) -> Digest:
    """A digest without what streams have from directives."""
    return {
        place: (value[0][:3], value[1]) if isinstance(value[0], tuple) else value  # type: ignore
        for place, value in digest.items()
    }


def _has_run(reply: Node) -> bool:
    """Whether a command was carried out: it is no error, and it was not queued by a MULTI among the acts."""
    return reply.kind not in b"-!" and reply.value != b"QUEUED"


def _waits_long(client: Client) -> bool:
    """Whether a client is blocked for ever, or for longer than is waited here."""
    blocked = client.blocked
    return blocked is not None and (blocked.block_ms is None or blocked.block_ms > CALM_MS * WAITS_MAX)


def changes(before: Any, after: Any) -> str:
    """In what two observations differ, in short."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
        parts = [f"{key!r}: {_change(before.get(key), after.get(key))}" for key in keys[:4]]
        return f"{len(keys)} differ; " + "; ".join(parts)
    return _change(before, after)


def _change(before: Any, after: Any) -> str:
    """The texts of two values from a little before their first difference on."""
    texts = str(before), str(after)
    same = next((index for index, pair in enumerate(zip(*texts, strict=False)) if pair[0] != pair[1]), 0)
    start = max(0, same - SHOWN_BEFORE)
    return " -> ".join(text[start : start + SHOWN_SIZE] for text in texts)
