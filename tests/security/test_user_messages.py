"""Every message of every engine from those who may do little in a real cluster, and paths in every name."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.protocol.examples import EXAMPLES
from tests.protocol.made import MADE
from tests.server.raw_client import HELLO, RawClient

import ithaca
from ithaca.engines.belfast.server.rights import BELFAST_RULES
from ithaca.engines.raft.server.rights import RAFT_RULES
from ithaca.engines.scalog.messages.appending import AppendPart, FinishPart, GetPart
from ithaca.engines.scalog.messages.requests import DropParts, KeepParts, PublishParts
from ithaca.engines.scalog.server.rights import SCALOG_RULES
from ithaca.model.errors import AuthenticationFailed, IthacaError, NotAllowed, ProtocolError
from ithaca.model.parts import Part
from ithaca.model.security.tls import TLS
from ithaca.model.view import Address
from ithaca.protocol.codec import is_for_servers
from ithaca.protocol.greeting import ANY_ENGINE, Failure, GetStatus, Hello
from ithaca.runtime.dialling import Introduction, dial
from ithaca.testing import Cluster
from ithaca.users.limits import USERS_ASK_S
from ithaca.wire.build import build

ENGINES = ("scalog", "belfast", "raft")
RULES = {"scalog": SCALOG_RULES, "belfast": BELFAST_RULES, "raft": RAFT_RULES}
SAID = tuple(each for each in (*EXAMPLES, *MADE) if not isinstance(each, Hello | Failure))
NAMES = ("loader", "orders", "w", "billing", "a")
"""As they are in the examples."""
PATHS = ("../../../evil", "/tmp/evil-{}", "~/evil", "evil\0", "a/../../evil")


class Users:
    """A cluster where `owner` has something of everything, and the tokens of users."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.operator = ithaca.connect(cluster.bootstrap, token=cluster.token)
        rights = {"owner": ["read", "append"], "reader": ["read"], "mallory": ["read", "append"]}
        self.tokens = {name: self.operator.admin.add_user(name, given) for name, given in rights.items()}
        self.tokens["nobody"] = ""
        time.sleep(4 * USERS_ASK_S)

    def log(self, name: str, **options: Any) -> ithaca.ClusterLog:
        return ithaca.connect(self.cluster.bootstrap, token=self.tokens[name], **options)

    def state(self) -> dict[str, object]:
        """What nobody else may change."""
        admin, has_parts = self.operator.admin, self.cluster.file.engine != "raft"
        return {
            "users": {each.name: each.rights for each in admin.users()},
            "sessions": {(each.name, each.epoch) for each in admin.sessions() if each.name.startswith("owner:")},
            "consumers": {each.name for each in self.operator.consumers() if each.name.startswith("owner:")},
            "writers": [
                (each.writer, each.key, each.position) for each in admin.writers() if each.writer.startswith("owner:")
            ]
            if has_parts
            else [],
            "orderers": [each.address for each in admin.orderers()],
            "first": self.operator.first(),
        }


@pytest.fixture(scope="module", params=ENGINES)
def users(request: pytest.FixtureRequest) -> Iterator[Users]:
    with Cluster(engine=request.param, users=True) as cluster:
        made = Users(cluster)
        with made.operator:
            yield made


async def connected(users: Users, address: Address, who: str) -> RawClient:
    client = RawClient()
    hello = replace(HELLO, credentials=users.tokens[who].encode(), engine=ANY_ENGINE)
    client.connection = await dial(address, hello, client)
    return client


async def answer_to(users: Users, address: Address, who: str, message: Any) -> object:
    client = await connected(users, address, who)
    try:
        return (await client.connection.request(message, timeout=0.2)).message
    except IthacaError as error:
        return error
    finally:
        client.connection.close()


@pytest.mark.parametrize("who", ["nobody", "reader"])
async def test_no_message_does_more_than_whoever_says_it_may(users: Users, who: str) -> None:
    """To every server; a reader's are those for which there is a rule."""
    before, tail = users.state(), users.operator.tail()
    rules = RULES[users.cluster.file.engine]
    for address in users.cluster.file.addresses():
        for message in {type(each): each for each in SAID}.values():
            kind = type(message)
            answered = await answer_to(users, address, who, message)
            is_refused = isinstance(answered, NotAllowed | ProtocolError)
            is_open = kind.__name__ in ("GetStatus", "GetView")
            assert is_refused or is_open or (who == "reader" and kind in rules), f"{kind.__name__} gave {answered!r}"
            if is_for_servers(message):
                assert isinstance(answered, AuthenticationFailed)
    assert (users.state(), users.operator.tail()) == (before, tail)


async def test_what_is_of_one_user_is_not_changed_by_another(users: Users) -> None:
    """Every message from who may append, with the names that the owner's things have, as said and as kept."""
    with users.log("owner") as log:
        sessions = [log.session(name) for name in NAMES]
        for session in sessions:
            session.append(b"mine")
        for name in NAMES:
            log.consumer(name).close()
        if users.cluster.file.engine != "raft":
            log.publish(7, [log.prepare([b"mine"])], writer="w")
        before = users.state()
        for address in users.cluster.file.addresses():
            for message in SAID:
                for said in (message, *renamed(message, ("owner:loader", "owner:a", ":owner:a"))):
                    await answer_to(users, address, "mallory", said)
        after = users.state()
        assert after == before
        for session in sessions:
            session.append(b"still mine")


def renamed(message: msgspec.Struct, names: tuple[str, ...]) -> Iterator[msgspec.Struct]:
    """The message with each of these in the place of every name in it."""
    texts = [name for name in message.__struct_fields__ if isinstance(getattr(message, name), str)]
    return (replace(message, **dict.fromkeys(texts, name)) for name in names if texts)


def files_of(directory: Path) -> set[Path]:
    return set(directory.rglob("*"))


async def test_a_path_in_a_name_is_a_name(users: Users) -> None:
    """Whoever may append and read puts paths into every name of every message: no file is made, and servers go on."""
    above = users.cluster.directory.parent
    for address in users.cluster.file.addresses():
        for message in SAID:
            for said in renamed(message, PATHS):
                await answer_to(users, address, "mallory", said)
    with users.log("mallory", timeout=5) as log:
        for path in PATHS:
            with suppress(ithaca.InvalidInput):
                log.session(path).append(b"x")
            log.consumer(path).close()
            if users.cluster.file.engine != "raft":
                log.publish(1, [log.prepare([b"x"])], writer=path)
            with pytest.raises(ithaca.InvalidInput):
                users.operator.admin.add_user(path, ["read"])
    found = [each for each in (*files_of(users.cluster.directory), *above.glob("*")) if "evil" in each.name]
    assert found == []
    assert users.cluster.status().problems() == []


async def test_a_stolen_part_is_that_of_no_part(users: Users) -> None:
    """Whoever has the token of a part that another prepares, and knows where it is, does nothing with it."""
    if users.cluster.file.engine == "raft":
        pytest.skip("this engine has no parts")
    with users.log("owner") as log:
        with log.open_part() as writer:
            writer.append_many([b"one"])
            part = writer.finish()
        stolen = Part.from_bytes(part.to_bytes())
        named = ((stolen.lane, stolen.token),)
        payload = build([b"forged"], timestamp_us=1).buffers()
        for address in users.cluster.file.addresses():
            for message in (
                AppendPart(stolen.lane, stolen.token, stolen.length),
                FinishPart(stolen.lane, stolen.token, 1),
                DropParts(named),
                KeepParts(named, 1),
                PublishParts("w", 9, "me", named),
            ):
                client = await connected(users, address, "mallory")
                answered: object = None
                try:
                    asked = client.connection.request(message, payload, timeout=0.5)
                    answered = (await asked).message
                except IthacaError as error:
                    answered = error
                client.connection.close()
                assert "PartsPublished" not in repr(answered)
                assert "PartSynced" not in repr(answered)
            answered = await answer_to(users, address, "mallory", GetPart(stolen.lane, stolen.token))
            assert getattr(answered, "part", None) is None
        published = log.publish(8, [part], writer="mine")
        assert log.read(published.position).value == b"one"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("tls", [False, True], ids=["token", "certificate"])
async def test_a_revoked_user_is_out_of_every_server_within_a_second(engine: str, tls: bool) -> None:
    with Cluster(engine=engine, tls=tls, users=True) as cluster:
        proof, token = await asyncio.to_thread(added, cluster, tls)
        hello = replace(HELLO, credentials=token.encode(), engine=ANY_ENGINE)
        clients = [RawClient() for _ in cluster.file.addresses()]
        for client, address in zip(clients, cluster.file.addresses(), strict=True):
            client.connection = await dial(address, Introduction(hello, proof), client)
            await client.ask(GetStatus())
        lost = asyncio.gather(*(client.connection.wait_lost() for client in clients))
        await asyncio.to_thread(revoked, cluster)
        await asyncio.wait_for(lost, 1.0)
        for address in cluster.file.addresses():
            with pytest.raises(AuthenticationFailed):
                await dial(address, Introduction(hello, proof), RawClient())


def operating(cluster: Cluster) -> ithaca.ClusterLog:
    return ithaca.connect(cluster.bootstrap, tls=cluster.tls, token=cluster.token)


def added(cluster: Cluster, tls: bool) -> tuple[TLS | None, str]:
    """A user that every server has heard of: how it proves who it is."""
    with operating(cluster) as operator:
        token = operator.admin.add_user("short", ["read", "append"], certificate=tls)
    time.sleep(4 * USERS_ASK_S)
    if not tls:
        return None, token
    from ithaca.cluster.certs.authority import Authority

    issued = Authority(cluster.directory / "tls").issue_user(cluster.file.name, "short")
    return TLS(cluster.directory / "tls" / "ca.pem", issued.certificate, issued.key), ""


def revoked(cluster: Cluster) -> None:
    with operating(cluster) as operator:
        operator.admin.revoke_user("short")
