"""BACKUP: copies of the append-only file, made while clients are served."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from ...protocol.replies import OK, Pairs, Reply, status_lines
from ..core.table import Flag, Trait, command, container

if TYPE_CHECKING:
    from ..execution.context import Context

ADMIN: Final = Flag.ADMIN | Flag.NOSCRIPT

# HELP is there twice, as in Redis.
HELP: Final = status_lines(
    (
        b"BACKUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        b"START",
        b"    Start a new backup into the configured 'backupdirname'.",
        b"SEAL",
        b"    Freeze the current backup (BASE + INCR + manifest).",
        b"ABORT",
        b"    Cancel a backup that has not been sealed yet.",
        b"CLEANUP",
        b"    Remove a sealed backup's files and return to idle.",
        b"STATUS",
        b"    Report the current backup state.",
        b"LIST",
        b"    List the immutable files pinned so far.",
        b"HELP",
        b"    Return this help.",
        b"HELP",
        b"    Print this help.",
    )
)

container(
    "BACKUP",
    group="server",
    since="8.10.0",
    arity=2,
    summary="Container of the commands about backups.",
    traits=Trait.ORDINARY,
)


@command(
    "BACKUP|START",
    arity=2,
    flags=ADMIN,
    group="server",
    since="8.10.0",
    summary="Starts a backup in the folder that `backupdirname` names.",
    complexity="O(1)",
)
def backup_start(context: Context, argv: list[bytes]) -> Reply:
    """BACKUP START. Returns OK; the base is written in the background. Raises GenericError. Source: Redis 8.10."""
    context.server.storage.backups.start(may_start=context.may_block)
    return OK


@command(
    "BACKUP|SEAL",
    arity=2,
    flags=ADMIN,
    group="server",
    since="8.10.0",
    summary="Completes the backup with all writes so far.",
    complexity="O(1)",
)
def backup_seal(context: Context, argv: list[bytes]) -> Reply:
    """BACKUP SEAL. Returns OK once the files are on stable storage. Raises GenericError. Source: Redis 8.10."""
    context.server.storage.backups.seal(may_start=context.may_block)
    return OK


@command(
    "BACKUP|ABORT",
    arity=2,
    flags=ADMIN,
    group="server",
    since="8.10.0",
    summary="Cancels a backup that is not sealed.",
    complexity="O(1)",
)
def backup_abort(context: Context, argv: list[bytes]) -> Reply:
    """BACKUP ABORT. Returns OK. Raises GenericError. Source: Redis 8.10."""
    context.server.storage.backups.abort()
    return OK


@command(
    "BACKUP|CLEANUP",
    arity=2,
    flags=ADMIN,
    group="server",
    since="8.10.0",
    summary="Removes the files of a backup.",
    complexity="O(1)",
)
def backup_cleanup(context: Context, argv: list[bytes]) -> Reply:
    """BACKUP CLEANUP. Returns OK, also without a backup. Raises GenericError while one runs. Source: Redis 8.10."""
    context.server.storage.backups.clean()
    return OK


@command(
    "BACKUP|STATUS",
    arity=2,
    flags=Flag.ADMIN | Flag.STALE,
    group="server",
    since="8.10.0",
    summary="Shows the state of the backup.",
    complexity="O(1)",
)
def backup_status(context: Context, argv: list[bytes]) -> Reply:
    """BACKUP STATUS. Returns a map: state, error, and the times of START and SEAL in Unix seconds."""
    backup = context.server.storage.backups.backup
    return Pairs(
        [
            (b"state", backup.state_name),
            (b"error", backup.error.encode()),
            (b"start_time", backup.started_ms // 1000),
            (b"end_time", backup.ended_ms // 1000),
        ]
    )


@command(
    "BACKUP|LIST",
    arity=2,
    flags=Flag.ADMIN | Flag.STALE,
    group="server",
    since="8.10.0",
    summary="Lists the paths of the files of the backup.",
    complexity="O(1)",
)
def backup_list(context: Context, argv: list[bytes]) -> Reply:
    """BACKUP LIST. Returns absolute paths: the base, then, once sealed, the increments and the manifest."""
    return [os.fsencode(path) for path in context.server.storage.backups.backup.paths]


@command(
    "BACKUP|HELP",
    arity=2,
    flags=Flag.LOADING | Flag.STALE,
    group="server",
    since="8.10.0",
    summary="Describes the subcommands.",
    complexity="O(1)",
)
def backup_help(context: Context, argv: list[bytes]) -> Reply:
    """BACKUP HELP. Returns lines."""
    return HELP
