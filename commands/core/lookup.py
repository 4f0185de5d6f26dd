"""Finding the row of a request: the first three checks of every request (unknown command, subcommand, arity)."""

from __future__ import annotations

from typing import Final

from ...store.errors import GenericError, UnknownCommand, shown, wrong_number_of_arguments
from .table import TABLE, Row

# Bytes of a client's own words that an error text repeats. More would let a client fill our server log.
ECHOED_SIZE_MAX: Final = 128


def look_up(argv: list[bytes], table: dict[bytes, Row] = TABLE) -> Row | GenericError:
    """The row that runs `argv`, after a check of the arity; otherwise the error that is its reply, with Redis' text."""
    row = table.get(argv[0].upper())
    if row is None:
        return unknown_command(argv)
    if row.subcommands and len(argv) > 1:
        found = row.subcommands.get(argv[1].upper())
        if found is None:
            return unknown_subcommand(argv[0], argv[1])
        row = found
    count = len(argv)
    if (count != row.arity if row.arity > 0 else count < -row.arity) or row.handler is None:
        if row.own_word and count == row.arity + 1 and argv[-1].upper() == row.own_word:
            return row
        return wrong_number_of_arguments(row.name_lower)
    return row


def find_row(argv: list[bytes], table: dict[bytes, Row] = TABLE) -> Row:
    """The row that runs `argv`. Raises the GenericError of `look_up`."""
    row = look_up(argv, table)
    if isinstance(row, GenericError):
        raise row
    return row


def named_row(argv: list[bytes]) -> Row | None:
    """The row that `argv` names, without a check of the arity."""
    row = TABLE.get(argv[0].upper())
    return row.subcommands.get(argv[1].upper()) if row is not None and row.subcommands and len(argv) > 1 else row


def unknown_command(argv: list[bytes]) -> UnknownCommand:
    """The error for an unknown command, with as many of its arguments as fit."""
    text = b"unknown command '" + shown(argv[0][:ECHOED_SIZE_MAX]) + b"'"
    if len(argv) == 1:
        return UnknownCommand(text)
    listed = b""
    for index in range(1, len(argv)):
        if len(listed) >= ECHOED_SIZE_MAX:
            break
        listed += b"'" + shown(argv[index][: ECHOED_SIZE_MAX - len(listed)]) + b"' "
    return UnknownCommand(text + b", with args beginning with: " + listed)


def unknown_subcommand(container: bytes, word: bytes) -> GenericError:
    """The error for a `word` that is no subcommand of `container`."""
    return GenericError(b"unknown subcommand '%b'. Try %b HELP." % (shown(word[:ECHOED_SIZE_MAX]), container.upper()))


def subcommand_syntax_error(container: bytes, word: bytes) -> GenericError:
    """The error for a known subcommand with too many words."""
    return GenericError(
        b"unknown subcommand or wrong number of arguments for '%b'. Try %b HELP."
        % (shown(word[:ECHOED_SIZE_MAX]), container)
    )
