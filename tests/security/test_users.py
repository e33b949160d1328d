"""Users of a real cluster: what each right allows and refuses, who owns what, and how soon changes hold."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.protocol.examples import EXAMPLES
from tests.server.raw_client import HELLO, RawClient

import ithaca
from ithaca.client.appending.outgoing import numbered
from ithaca.engines.belfast.messages import TYPES as BELFAST_TYPES
from ithaca.engines.belfast.server.rights import BELFAST_RULES
from ithaca.engines.raft import messages as raft_messages
from ithaca.engines.raft.server.rights import RAFT_RULES
from ithaca.engines.scalog.messages.appending import Append, GetPart
from ithaca.engines.scalog.messages.numbers import TYPES as SCALOG_TYPES
from ithaca.engines.scalog.messages.order import GetTail
from ithaca.engines.scalog.messages.places import LocateRecords
from ithaca.engines.scalog.messages.requests import EndSession
from ithaca.engines.scalog.ordering.outcomes import RefusedEntry
from ithaca.engines.scalog.server.rights import SCALOG_RULES
from ithaca.model.errors import AuthenticationFailed, IthacaError, NotAllowed, Overloaded
from ithaca.model.positions import LaneId
from ithaca.model.records import KeyFilter
from ithaca.model.security.token import write_token
from ithaca.model.view import Address
from ithaca.protocol.codec import is_for_servers
from ithaca.protocol.greeting import GetStatus
from ithaca.protocol.messages import TYPES
from ithaca.runtime.dialling import dial
from ithaca.testing import Cluster
from ithaca.wire.build import build

RIGHTS = {
    "all": ["read", "append", "trim", "admin"],
    "reader": ["read"],
    "writer": ["append"],
    "trimmer": ["trim"],
    "mallory": ["read", "append", "trim"],
    "thief": ["read", "append"],
    "prefixed": ["read:a/", "append:a/"],
}


class Users:
    """A cluster, its operator, and the tokens of its users."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.operator = ithaca.connect(cluster.bootstrap, token=cluster.token)
        self.tokens = {name: self.operator.admin.add_user(name, rights) for name, rights in RIGHTS.items()}
        for name in RIGHTS:
            self.known(name)

    def log(self, name: str, **options: Any) -> ithaca.ClusterLog:
        return ithaca.connect(self.cluster.bootstrap, token=self.tokens[name], **options)

    def known(self, name: str) -> None:
        """Every server has heard of the user: those that hold no table ask for it."""
        version = max(each["users"]["version"] for each in self._orderers())
        assert version >= 1, name

    def _orderers(self) -> list[dict[str, Any]]:
        told = [each.status for each in self.cluster.status().servers]
        return [each for each in told if each is not None and each.get("role") == "orderer"]

    @property
    def addresses(self) -> list[Address]:
        return self.cluster.file.addresses()


@pytest.fixture(scope="module")
def users() -> Iterator[Users]:
    with Cluster(users=True) as cluster:
        made = Users(cluster)
        with made.operator:
            made.operator.append_many([b"1", b"2", b"3"], keys=[b"a/1", b"b/1", None])
            yield made


def works(call: Callable[[], object]) -> bool:
    try:
        call()
    except NotAllowed:
        return False
    return True


def test_each_right_allows_its_own_calls_and_no_others(users: Users) -> None:
    calls: dict[str, Callable[[ithaca.ClusterLog], object]] = {
        "read": lambda log: [list(log.read_range(1, 4)), log.read(1), list(log.consumers())],
        "append": lambda log: [log.append(b"x"), log.session("s").append(b"y"), log.prepare([b"z"])],
        "trim": lambda log: log.trim(1),
        "admin": lambda log: [log.admin.users(), log.admin.sessions(), log.admin.writers()],
    }
    for name in ("all", "reader", "writer", "trimmer"):
        with users.log(name) as log:
            allowed = {right for right, call in calls.items() if works(lambda call=call: call(log))}  # type: ignore[misc]
        assert allowed == set(RIGHTS[name]), name


def test_a_reader_by_prefix_gets_what_matches_and_nothing_else(users: Users) -> None:
    with users.log("prefixed") as log:
        every = KeyFilter.prefix(b"")
        assert {record.key for record in log.read_range(1, log.tail(), where=every)} == {b"a/1"}
        assert [record.key for record in log.read_range(1, 3, where=KeyFilter.prefix(b"b/"))] == []
        assert log.read(1).value == b"1"
        for refused in (lambda: list(log.read_range(1, 4)), lambda: log.read(2), lambda: log.read(3)):
            with pytest.raises(NotAllowed, match="a/") as caught:
                refused()
            assert caught.value.right == "read"


def test_an_appender_by_prefix_appends_what_matches(users: Users) -> None:
    with users.log("prefixed") as log:
        tail = log.append(b"mine", key=b"a/2").position
        for key in (b"b/2", None, b"a"):
            with pytest.raises(NotAllowed) as caught:
                log.append(b"not mine", key=key)
            assert (caught.value.right, caught.value.prefix) == ("append", "b'a/'")
        with pytest.raises(NotAllowed):
            log.append_many([b"mine", b"not mine"], keys=[b"a/3", b"c/3"])
    with users.log("reader") as reader:
        assert [record.value for record in reader.read_range(tail, reader.tail())] == [b"mine"]


def test_names_of_users_are_their_own(users: Users) -> None:
    with users.log("all") as one, users.log("mallory") as other:
        mine, theirs = one.session("etl"), other.session("etl")
        assert (mine.name, theirs.name) == ("etl", "etl")
        mine.append(b"of all")
        theirs.append(b"of mallory")
        mine.append(b"of all, not fenced")
        with one.consumer("billing"), other.consumer("billing"):
            assert [each.name for each in other.consumers()] == ["billing"]
            assert {each.name for each in users.operator.consumers()} >= {"all:billing", "mallory:billing"}
        names = {each.name for each in users.operator.admin.sessions()}
        assert {"all:etl", "mallory:etl"} <= names
        users.operator.session("etl")
        assert "etl" in {each.name for each in users.operator.admin.sessions()}
        users.operator.admin.expire_session("etl")
        users.operator.reset_consumer("mallory:billing", 1)
        users.operator.delete_consumer("mallory:billing")


def test_a_part_is_of_whoever_prepared_it(users: Users) -> None:
    with users.log("all") as one, users.log("mallory") as other:
        part = one.prepare([b"prepared"])
        with pytest.raises(ithaca.PartGone):
            other.publish(1, [part], writer="w")
        with pytest.raises(ithaca.PartGone):
            other.publish_once([part])
        other.abort([part])
        published = one.publish(1, [part], writer="w")
        assert published.writer == "w"
        once = [one.publish_once([one.prepare([value])]).position for value in (b"a", b"b")]
        assert [one.read(position).value for position in once] == [b"a", b"b"]
        assert one.read(published.position).value == b"prepared"


async def raw(users: Users, address: Address, token: str) -> RawClient:
    client = RawClient()
    client.connection = await dial(address, replace(HELLO, credentials=token.encode()), client)
    return client


async def test_a_session_of_another_is_not_appended_to_nor_ended(users: Users) -> None:
    with users.log("all") as log:
        session = log.session("theirs")
        session.append(b"first")
        (info,) = [each for each in users.operator.admin.sessions() if each.name == "all:theirs"]
        orderer = users.cluster.file.orderers[0].address
        thief = await raw(users, orderer, users.tokens["mallory"])
        for producer_id in range(1, 20):
            answer = await thief.ask(EndSession(producer_id, info.epoch))
            for outcome in answer.outcomes:
                assert isinstance(outcome, RefusedEntry) or outcome.session.name != "theirs"
        thief.connection.close()
        session.append(b"second")


async def test_a_batch_under_the_number_of_another_session_is_refused(users: Users) -> None:
    """Whoever guesses the id, epoch and next number of a session does not append in it."""
    with users.log("all") as log:
        session = log.session("guarded")
        session.append(b"first")
        (info,) = [each for each in users.operator.admin.sessions() if each.name == "all:guarded"]
        forged = build([b"forged"], timestamp_us=1)
        refused = 0
        for shard in users.cluster.file.shards:
            for replica in shard.replicas:
                thief = await raw(users, replica.address, users.tokens["thief"])
                lane = LaneId(shard.shard, replica.replica, 1)
                for producer_id in range(1, 20):
                    batch = numbered(forged, (producer_id, info.epoch, 2))
                    with pytest.raises(IthacaError) as told:
                        await asyncio.wait_for(thief.append(lane, batch), 10)
                    refused += isinstance(told.value, NotAllowed)
                thief.connection.close()
        assert refused
        session.append(b"second")
        values = [record.value for record in log.read_range("earliest")]
    assert b"forged" not in values


def test_every_message_of_a_client_has_a_row() -> None:
    """And those without one are answers, or said by servers alone."""
    asked = {type(each) for each in EXAMPLES if not is_for_servers(each)}
    assert asked <= {*TYPES.values(), *SCALOG_TYPES.values(), *asked}
    assert {*TYPES.values(), *SCALOG_TYPES.values()} <= {type(each) for each in EXAMPLES}
    names = {kind.__name__ for kind in asked if kind not in SCALOG_RULES and not _is_said_back(kind.__name__)}
    assert names == set()
    assert {kind.__name__ for kind in raft_asked() if kind not in RAFT_RULES} == set()
    assert {kind.__name__ for kind in BELFAST_TYPES.values() if kind in BELFAST_RULES} == {
        "GetOwner",
        "FollowSlots",
        "Speculate",
    }


def raft_asked() -> list[type]:
    """Messages of the engine raft that clients say: those of its module that are no answers."""
    kinds = [each for each in vars(raft_messages).values() if isinstance(each, type) and each.__module__ == RAFT]
    return [kind for kind in kinds if not _is_said_back(kind.__name__) and kind not in RAFT_SERVERS]


RAFT = raft_messages.__name__
RAFT_SERVERS = (raft_messages.CopyLane, raft_messages.LaneCopy, raft_messages.LaneLocation, raft_messages.Delivered)


_BACK = {
    *("Hello", "Welcome", "Failure", "Redirect", "Finished", "Applied", "Acks", "Found", "Elsewhere", "Behind"),
    *("Deliver", "RecordLocations", "RunsReply", "TailReply", "SessionTailReply", "PartSynced", "LaneBatches"),
    *("Joined", "JoinedLanes", "News", "BootIsKnown", "KeptFrom", "Enlisted", "OrderNews", "Attached", "Assigned"),
    *("Alive", "ConsumersChanged", "GroupBeaten", "UsersChanged", "UsersListed"),
}


def _is_said_back(name: str) -> bool:
    return name in _BACK or name.endswith(("Is", "Are"))


async def test_nobody_says_that_it_is_a_server(users: Users) -> None:
    for role in ("replica", "orderer", "aggregator"):
        for token in ("", users.tokens["all"], "itk:operator:guessed"):
            hello = replace(HELLO, role=role, name="1", credentials=token.encode())
            with pytest.raises(AuthenticationFailed):
                await dial(users.addresses[0], hello, RawClient())


async def test_where_files_lie_is_said_to_readers_of_everything(users: Users) -> None:
    replica = users.cluster.file.shards[0].replicas[0].address
    for name, error in (("prefixed", NotAllowed), ("writer", NotAllowed)):
        client = await raw(users, replica, users.tokens[name])
        with pytest.raises(error):
            await client.ask(LocateRecords("machine", 1, 2))
        client.connection.close()


async def test_what_is_asked_of_a_replica_without_the_right_is_answered_and_not_kept(users: Users) -> None:
    replica = users.cluster.file.shards[0].replicas[0].address
    client = await raw(users, replica, users.tokens["reader"])
    view = await client.ask(GetStatus())
    assert view is not None
    with pytest.raises(NotAllowed, match="append"):
        await client.ask(GetPart(_lane(), bytes(16)))
    with pytest.raises(NotAllowed, match="append"):
        await client.ask(Append(_lane()))
    client.connection.close()


def _lane() -> Any:
    return next(each for each in EXAMPLES if isinstance(each, Append)).lane


def until_refused(call: Callable[[], object]) -> tuple[IthacaError, float]:
    """Call it until it is refused: why, and when it last was not."""
    last_s = 0.0
    while True:
        try:
            call()
        except IthacaError as error:
            return error, last_s
        last_s = time.monotonic()


def test_a_revoked_user_is_out_within_a_second_everywhere(users: Users) -> None:
    users.tokens["short"] = users.operator.admin.add_user("short", ["read", "append"])
    with users.log("short", timeout=3) as log:
        log.append(b"while it lasts")
        reader = log.subscribe(log.tail())
        users.operator.admin.revoke_user("short")
        revoked_s = time.monotonic()
        _, last_s = until_refused(lambda: log.append(b"more"))
        assert last_s - revoked_s < 1
        later = users.operator.append(b"not for short").position
        seen: list[int] = []
        until_refused(lambda: seen.append(next(reader).position))
        assert max(seen, default=0) < later
    with pytest.raises(AuthenticationFailed):
        users.log("short", timeout=2)


def test_a_right_that_is_withdrawn_is_gone_on_open_connections(users: Users) -> None:
    users.tokens["less"] = users.operator.admin.add_user("less", ["read", "append"])
    with users.log("less", timeout=5) as log:
        log.append(b"still")
        users.operator.admin.withdraw("less", ["append"])
        error, _ = until_refused(lambda: log.append(b"more"))
        assert isinstance(error, NotAllowed)
        assert error.right == "append"
        assert log.read(1).value == b"1"
        users.operator.admin.grant("less", ["append"])
        deadline = time.monotonic() + 5
        while not works(lambda: log.append(b"again")):
            assert time.monotonic() < deadline
    users.operator.admin.revoke_user("less")


def test_two_tokens_are_valid_while_one_is_rotated(users: Users) -> None:
    users.tokens["rotated"] = users.operator.admin.add_user("rotated", ["read"])
    first = users.log("rotated")
    users.tokens["rotated"] = users.operator.admin.rotate_token("rotated")
    with users.log("rotated"), first:
        assert first.read(1).value == b"1"
    last = users.operator.admin.rotate_token("rotated", keep=False)
    with pytest.raises(AuthenticationFailed):
        users.log("rotated", timeout=2)
    users.tokens["rotated"] = last
    with users.log("rotated") as log:
        assert log.read(1).value == b"1"
    users.operator.admin.revoke_user("rotated")


async def test_a_limit_says_when_to_try_again(users: Users) -> None:
    limits = ithaca.UserLimits(requests_per_s=5, connections=1)
    token = users.operator.admin.add_user("slow", ["read"], limits=limits)
    orderer = users.cluster.file.orderers[0].address
    client = await raw(users, orderer, token)
    with pytest.raises(Overloaded, match="requests") as caught:
        await asyncio.gather(*(client.ask(GetTail()) for _ in range(20)))
    assert 0 < caught.value.retry_after_s <= 4
    with pytest.raises(Overloaded, match="connections"):
        await raw(users, orderer, token)
    client.connection.close()
    users.operator.admin.revoke_user("slow")


def test_names_and_parts_of_a_user_are_limited(users: Users) -> None:
    limits = ithaca.UserLimits(sessions=2, parts=1)
    users.tokens["few"] = users.operator.admin.add_user("few", ["append"], limits=limits)
    with users.log("few", timeout=2) as log:
        log.session("one")
        log.session("two")
        log.session("one")
        with pytest.raises(Overloaded, match="sessions") as caught:
            log.session("three")
        assert caught.value.retry_after_s
        log.prepare([b"one"])
        with pytest.raises(Overloaded, match="parts"):
            log.prepare([b"two"])
    users.operator.admin.revoke_user("few")


def test_what_is_wrong_about_a_user_is_said(users: Users) -> None:
    admin = users.operator.admin
    with pytest.raises(ithaca.NoSuchUser, match="nobody-here"):
        admin.grant("nobody-here", ["read"])
    with pytest.raises(ithaca.InvalidInput, match="already"):
        admin.add_user("reader", ["read"])
    for wrong in ("operator", "a b", ""):
        with pytest.raises(ithaca.InvalidInput):
            admin.add_user(wrong, ["read"])
    with pytest.raises(ithaca.InvalidInput, match="no right"):
        admin.grant("reader", ["fly"])


def test_a_token_is_shown_nowhere(users: Users, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = users.tokens["reader"]
    with users.log("reader") as log:
        assert token not in repr(log)
    assert token not in repr(replace(HELLO, credentials=token.encode()))
    path = tmp_path / "token"
    write_token(path, token)
    monkeypatch.setenv("ITHACA_TOKEN_FILE", str(path))
    with ithaca.connect(users.cluster.bootstrap) as log:
        assert log.read(1).value == b"1"
    path.chmod(0o644)
    with pytest.raises(ithaca.InvalidInput, match="0644") as caught:
        ithaca.connect(users.cluster.bootstrap)
    assert token not in str(caught.value)


def test_an_engine_that_holds_nobody_to_its_rights_does_not_start() -> None:
    with pytest.raises(ithaca.ConfigError, match=r"\[users\]"), Cluster(engine="corfu", users=True):
        pass


@pytest.mark.parametrize("engine", ["belfast", "raft"])
def test_other_engines_hold_users_to_their_rights(engine: str) -> None:
    with (
        Cluster(engine=engine, users=True) as cluster,
        ithaca.connect(cluster.bootstrap, token=cluster.token) as operator,
    ):
        position = operator.append(b"1", key=b"a/1").position
        operator.append(b"2", key=b"b/1")
        tokens = {name: operator.admin.add_user(name, rights) for name, rights in RIGHTS.items()}
        with ithaca.connect(cluster.bootstrap, token=tokens["reader"]) as log:
            assert log.read(position).value == b"1"
            for refused in (lambda: log.append(b"2"), lambda: log.trim(1), lambda: log.admin.users()):
                with pytest.raises(NotAllowed):
                    refused()
        with ithaca.connect(cluster.bootstrap, token=tokens["prefixed"]) as log:
            everything = log.read_range(1, log.tail(), where=KeyFilter.prefix(b""))
            assert [record.value for record in everything] == [b"1"]
            assert log.read(position).key == b"a/1"
            log.append(b"3", key=b"a/2")
            with pytest.raises(NotAllowed):
                log.append(b"4", key=b"b/2")
            with pytest.raises(NotAllowed):
                list(log.read_range(1, 2))
        with (
            ithaca.connect(cluster.bootstrap, token=tokens["all"]) as one,
            ithaca.connect(cluster.bootstrap, token=tokens["mallory"], timeout=2) as other,
        ):
            one.session("etl").append(b"of all")
            other.session("etl").append(b"of mallory")
            assert {each.name for each in one.admin.sessions()} >= {"etl", "mallory:etl"}
            one.admin.expire_session("mallory:etl")
            assert "mallory:etl" not in {each.name for each in one.admin.sessions()}
            operator.admin.revoke_user("mallory")
            until_refused(lambda: other.append(b"more"))
        with pytest.raises(AuthenticationFailed):
            ithaca.connect(cluster.bootstrap, token=tokens["mallory"], timeout=2)
