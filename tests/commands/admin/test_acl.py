"""Users: changed rules for connected clients, the log of refusals, and the tables of their commands."""

from __future__ import annotations

import pytest

from headrace.commands.core.table import all_rows
from headrace.commands.permissions.known import REDIS_COMMANDS
from headrace.commands.permissions.log import GROUPING_MS
from support.inprocess import Caller, Rig
from support.replies import parse, plain

DENIED = b"-NOPERM User al has no permissions to run the '%b' command\r\n"


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
def admin(rig: Rig) -> Caller:
    return rig.connect()


def user(rig: Rig, admin: Caller, *rules: str) -> Caller:
    """Returns a client logged in as the user `al`, with these rules and the password `pw`."""
    assert admin.call("ACL SETUSER al on >pw " + " ".join(rules)) == b"+OK\r\n"
    caller = rig.connect()
    assert caller.call("AUTH al pw") == b"+OK\r\n"
    return caller


def log_of(admin: Caller, count: int = 10) -> list[dict[bytes, object]]:
    """Returns the entries of ACL LOG as maps."""
    admin.call("HELLO 3")
    entries: list[dict[bytes, object]] = plain(parse(admin.call(f"ACL LOG {count}")))
    return entries


# -- checks of requests --------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["-@stream", "resetkeys", "resetchannels", "resetkeys %R~*"])
def test_restricted_users_take_the_fast_path_with_tables_of_their_own(rig: Rig, admin: Caller, rule: str) -> None:
    al = user(rig, admin, "+@all ~* &*")
    open_rows = al.client.rows
    admin.call(f"ACL SETUSER al {rule}")
    assert al.client.rows
    assert al.client.rows != open_rows
    assert admin.client.rows.keys() == open_rows.keys()


@pytest.mark.parametrize("line", ["AUTH al pw", "HELLO 3 AUTH al pw"])
def test_a_login_in_a_transaction_applies_to_the_commands_after_it(rig: Rig, admin: Caller, line: str) -> None:
    user(rig, admin, "+get ~a*")
    caller = rig.connect()
    caller.call("SET b 1", "MULTI", line, "GET b", "GET a")
    replies = plain(parse(caller.call("EXEC")))
    assert b"no permission to touch the specified keys" in bytes(replies[1].value)
    assert replies[2] is None
    assert caller.call("GET b") == b"-NOPERM No permissions to access a key\r\n"


def test_a_restricted_user_is_served_and_refused_within_one_pipeline(rig: Rig, admin: Caller) -> None:
    al = user(rig, admin, "+set +get ~a*")
    assert al.call("SET a 1", "GET a", "SET b 1", "DEL a", "GET a") == (
        b"+OK\r\n$1\r\n1\r\n-NOPERM No permissions to access a key\r\n" + DENIED % b"del" + b"$1\r\n1\r\n"
    )


def test_changed_rules_apply_to_connected_clients(rig: Rig, admin: Caller) -> None:
    al = user(rig, admin, "+get ~*")
    assert al.call("GET k") == b"$-1\r\n"
    admin.call("ACL SETUSER al -get")
    assert al.call("GET k") == DENIED % b"get"
    admin.call("ACL SETUSER al +get off")
    assert al.call("GET k", "AUTH al pw", "GET k") == (
        b"$-1\r\n-WRONGPASS invalid username-password pair or user is disabled.\r\n$-1\r\n"
    )


def test_a_refused_blocked_command_does_not_wait(rig: Rig, admin: Caller) -> None:
    al = user(rig, admin, "+@all -xread ~*")
    assert al.call("XREAD BLOCK 0 STREAMS s $") == DENIED % b"xread"
    assert al.client.blocked is None


def test_wrong_rules_change_nothing(rig: Rig, admin: Caller) -> None:
    before = admin.call("ACL LIST")
    assert admin.call("ACL SETUSER al on +get +nosuch").startswith(b"-ERR Error in ACL SETUSER modifier '+nosuch'")
    assert admin.call("ACL LIST") == before
    admin.call("ACL SETUSER al on ~a")
    before = admin.call("ACL LIST")
    assert admin.call("ACL SETUSER al off +get ~a (+nosuch)").startswith(b"-ERR Error")
    assert admin.call("ACL LIST") == before


# -- logins and disconnections -------------------------------------------------------------------


def test_clients_of_deleted_users_are_disconnected_and_others_stay(rig: Rig, admin: Caller) -> None:
    al = user(rig, admin, "+@all ~* &*")
    assert admin.call("ACL DELUSER al nobody") == b":1\r\n"
    assert al.client.killed
    assert not admin.client.killed
    assert al.call("PING") == b"+PONG\r\n"  # as default, without a password; a real connection would be closed by now


def test_a_user_that_deletes_itself_gets_the_reply_first(rig: Rig, admin: Caller) -> None:
    al = user(rig, admin, "+@all ~* &*")
    assert al.call("ACL DELUSER al", "PING") == b":1\r\n"
    assert al.client.close_after_reply


def test_a_subscriber_that_loses_its_channels_is_disconnected(rig: Rig, admin: Caller) -> None:
    al = user(rig, admin, "+@all ~* &news &p*")
    al.call("HELLO 3", "SUBSCRIBE news", "PSUBSCRIBE p*")
    admin.call("ACL SETUSER al &more -get")
    assert not al.client.killed
    admin.call("ACL SETUSER al resetchannels &news")
    assert al.client.killed
    assert not admin.client.killed


def test_a_monitor_that_loses_its_command_is_disconnected(rig: Rig, admin: Caller) -> None:
    al = user(rig, admin, "+monitor +ping")
    al.call("MONITOR")
    admin.call("ACL SETUSER al -ping")
    assert not al.client.killed
    admin.call("ACL SETUSER al -@admin (+monitor)")
    assert not al.client.killed
    admin.call("ACL SETUSER al clearselectors")
    assert al.client.killed
    assert not admin.client.killed


def test_replies_do_not_reveal_user_names(rig: Rig, admin: Caller) -> None:
    admin.call("ACL SETUSER al on >pw", "ACL SETUSER off >pw", "ACL SETUSER none on")
    stranger = rig.connect()
    replies = {stranger.call(line) for line in ("AUTH al x", "AUTH off pw", "AUTH none x", "AUTH nobody x")}
    assert replies == {b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"}


def test_any_of_several_passwords_logs_in(rig: Rig, admin: Caller) -> None:
    admin.call("ACL SETUSER al on >one >two +@all")
    stranger = rig.connect()
    assert stranger.call("AUTH al one", "AUTH al two") == b"+OK\r\n" * 2
    admin.call("ACL SETUSER al <one")
    assert stranger.call("AUTH al one").startswith(b"-WRONGPASS")


def test_the_default_user_can_be_disabled(rig: Rig, admin: Caller) -> None:
    admin.call("ACL SETUSER al on >pw +@all ~* &*", "ACL SETUSER default off")
    stranger = rig.connect()
    assert stranger.call("PING", "AUTH default x", "AUTH al pw", "PING") == (
        b"-NOAUTH Authentication required.\r\n"
        b"-WRONGPASS invalid username-password pair or user is disabled.\r\n+OK\r\n+PONG\r\n"
    )
    assert admin.call("PING") == b"+PONG\r\n", "a logged-in client stays logged in"


def test_requirepass_replaces_the_default_users_passwords_and_not_the_other_way_round(rig: Rig, admin: Caller) -> None:
    admin.call("CONFIG SET requirepass one", "ACL SETUSER default >two")
    assert admin.call("CONFIG GET requirepass") == b"*2\r\n$11\r\nrequirepass\r\n$3\r\none\r\n"
    stranger = rig.connect()
    assert stranger.call("AUTH two", "AUTH one") == b"+OK\r\n" * 2
    admin.call("CONFIG SET requirepass three")
    assert rig.connect().call("AUTH one", "AUTH two", "AUTH three").count(b"-WRONGPASS") == 2


def test_acl_pubsub_default_sets_the_channels_of_new_users(rig: Rig, admin: Caller) -> None:
    admin.call("ACL SETUSER closed", "CONFIG SET acl-pubsub-default allchannels", "ACL SETUSER open (+get)")
    assert admin.call("ACL LIST").count(b"&*") == 3, "default, open and its selector"
    admin.call("ACL SETUSER closed reset")
    assert admin.call("ACL LIST").count(b"&*") == 4
    admin.call("CONFIG SET acl-pubsub-default resetchannels", "ACL SETUSER open reset")
    assert admin.call("ACL LIST").count(b"&*") == 2


# -- the log of refusals -------------------------------------------------------------------------


def test_a_rule_of_a_category_replaces_rules_of_first_arguments(rig: Rig, admin: Caller) -> None:
    user = rig.connect()
    admin.call("ACL SETUSER al on nopass -@all +select|1 +auth")
    assert user.call("AUTH al x", "SELECT 1") == b"+OK\r\n+OK\r\n"
    admin.call("ACL SETUSER al -@connection")
    assert user.call("SELECT 1").startswith(b"-NOPERM")
    admin.call("ACL SETUSER al +@connection -select")
    assert user.call("SELECT 1").startswith(b"-NOPERM")
    assert user.call("CLIENT ID", "ECHO a").endswith(b"$1\r\na\r\n")


def test_each_kind_of_refusal_is_in_the_log_newest_first(rig: Rig, admin: Caller) -> None:
    al = user(rig, admin, "+@all -config ~a &c")
    al.call("CLIENT SETNAME worker", "GET b", "PUBLISH d x", "CONFIG GET x", "MULTI", "GET c", "AUTH al wrong")
    entries = log_of(admin)
    assert [(each[b"reason"], each[b"context"], each[b"object"], each[b"username"]) for each in entries] == [
        (b"key", b"multi", b"c", b"al"),
        (b"command", b"toplevel", b"config|get", b"al"),
        (b"channel", b"toplevel", b"d", b"al"),
        (b"key", b"toplevel", b"b", b"al"),
    ]
    assert list(entries[0]) == [
        b"count", b"reason", b"context", b"object", b"username", b"age-seconds", b"client-info", b"entry-id",
        b"timestamp-created", b"timestamp-last-updated",
    ]  # fmt: skip
    assert [each[b"entry-id"] for each in entries] == [3, 2, 1, 0]
    line = entries[1][b"client-info"]
    assert isinstance(line, bytes)
    assert b" name=worker " in line
    assert b" user=al " in line
    assert b" cmd=config|get " in line


def test_failed_logins_are_in_the_log_under_the_tried_name(rig: Rig, admin: Caller) -> None:
    rig.connect().call("AUTH nobody x", "auth also-nobody x", "HELLO 3 AUTH default2 x")
    assert [(each[b"reason"], each[b"object"], each[b"username"]) for each in log_of(admin)] == [
        (b"auth", b"HELLO", b"default2"),
        (b"auth", b"auth", b"also-nobody"),
        (b"auth", b"AUTH", b"nobody"),
    ]


def test_equal_refusals_within_a_minute_are_one_entry_that_moves_to_the_front(rig: Rig, admin: Caller) -> None:
    al = user(rig, admin, "+get ~a")
    al.call("GET b", "GET c")
    rig.clock.advance(GROUPING_MS)
    al.call("GET b")
    entries = log_of(admin)
    assert [(each[b"object"], each[b"count"], each[b"entry-id"]) for each in entries] == [(b"b", 2, 0), (b"c", 1, 1)]
    assert entries[0][b"timestamp-last-updated"] - entries[0][b"timestamp-created"] == GROUPING_MS  # type: ignore[operator]
    rig.clock.advance(GROUPING_MS + 1)
    al.call("GET b")
    assert [(each[b"object"], each[b"count"]) for each in log_of(admin)] == [(b"b", 1), (b"b", 2), (b"c", 1)]
    assert [each[b"age-seconds"] for each in log_of(admin, 2)] == [b"0", b"60.001"]


def test_acllog_max_len_limits_the_log(rig: Rig, admin: Caller) -> None:
    al = user(rig, admin, "+get ~a")
    admin.call("CONFIG SET acllog-max-len 2")
    al.call("GET b", "GET c", "GET d")
    assert [each[b"object"] for each in log_of(admin)] == [b"d", b"c"]
    assert admin.call("ACL LOG RESET") == b"+OK\r\n"
    assert log_of(admin) == []


def test_info_counts_refusals_by_kind(rig: Rig, admin: Caller) -> None:
    al = user(rig, admin, "+get +publish ~a &a")
    al.call("GET b", "GET c", "PUBLISH b x", "SET a 1", "AUTH x y", "AUTH default y")
    text = admin.call("INFO stats")
    for name, count in (("auth", 1), ("cmd", 1), ("key", 2), ("channel", 1)):
        assert b"acl_access_denied_%b:%d\r\n" % (name.encode(), count) in text


# -- names ---------------------------------------------------------------------------------------


def test_every_command_that_redis_has_is_known_by_name() -> None:
    own = {row.name_lower for row in all_rows() if not row.is_own}
    assert own <= REDIS_COMMANDS
