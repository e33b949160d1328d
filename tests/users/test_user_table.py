"""The table of users against a naive one, and what tokens, names and buckets promise. Numbers are those of
`ithaca.users`."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ithaca.model.errors import InvalidInput, NotAllowed
from ithaca.model.security.users import (
    OPERATOR,
    USER_PREFIXES_MAX,
    USERS_MAX,
    AddUser,
    Grant,
    GrantRights,
    LimitUser,
    RevokeUser,
    Right,
    RotateToken,
    TokenHash,
    User,
    UserCommand,
    UserLimits,
    UserRefused,
    UserStands,
    WithdrawRights,
    name_in,
    parse_right,
    shown_rights,
)
from ithaca.users.bucket import Bucket
from ithaca.users.names import owned_name, owned_token, owner_of, owner_tag, said_name
from ithaca.users.rights import check_right, check_some
from ithaca.users.table import PackedUsers, UserChanges, UserTable
from ithaca.users.tokens import hash_token, is_token, parse_token, token_text

NAMES = st.sampled_from(["alice", "bob", "eve", OPERATOR])
RIGHTS = st.lists(st.sampled_from(["read", "append", "trim", "admin"]), unique=True, max_size=4).map(tuple)
PREFIXES = st.lists(st.sampled_from([b"a/", b"b/", b"c/"]), unique=True, max_size=3).map(tuple)
GRANTS = st.builds(Grant, RIGHTS, PREFIXES, PREFIXES)
TOKENS = st.integers(0, 3).map(lambda number: TokenHash(bytes([number]) * 16, bytes(32)))
LIMITS = st.builds(UserLimits, connections=st.integers(0, 3))
COMMANDS = st.one_of(
    st.builds(AddUser, st.builds(User, NAMES, GRANTS, st.lists(TOKENS, max_size=1).map(tuple), LIMITS)),
    st.builds(RotateToken, NAMES, TOKENS, st.booleans()),
    st.builds(RevokeUser, NAMES),
    st.builds(GrantRights, NAMES, GRANTS),
    st.builds(WithdrawRights, NAMES, GRANTS),
    st.builds(LimitUser, NAMES, LIMITS),
)

Naive = dict[str, tuple[set[str], list[TokenHash], UserLimits]]


def naive_step(users: Naive, command: UserCommand) -> None:
    """What the command does to users that are sets of rights as they are written, and lists of tokens."""
    name = name_in(command)
    if isinstance(command, AddUser):
        if name != OPERATOR and name not in users:
            users[name] = (set(shown_rights(command.user.grant)), list(command.user.tokens), command.user.limits)
    elif isinstance(command, RevokeUser):
        users.pop(name, None)
    elif name in users:
        rights, tokens, limits = users[name]
        match command:
            case RotateToken(token=token, keep=keep):
                tokens = [token, *[each for each in tokens if keep and each != token][:1]]
            case GrantRights(grant=grant):
                rights = rights | set(shown_rights(grant))
            case WithdrawRights(grant=grant):
                rights = rights - set(shown_rights(grant))
            case LimitUser(limits=new):
                limits = new
        users[name] = (rights, tokens, limits)


def seen(table: UserTable) -> Naive:
    return {
        name: (set(shown_rights(user.grant)), list(user.tokens), user.limits) for name, user in table.by_name.items()
    }


@given(st.lists(st.lists(COMMANDS, min_size=1, max_size=3).map(tuple), max_size=12), st.data())
def test_the_table_does_what_a_naive_one_does_from_any_snapshot_on(
    entries: list[tuple[UserCommand, ...]], data: st.DataObject
) -> None:
    """Invariants 1 and 3."""
    cut = data.draw(st.integers(0, len(entries)))
    table, naive, later = UserTable(), Naive(), UserTable()
    for number, commands in enumerate(entries):
        if number == cut:
            later = UserTable(msgspec.msgpack.decode(msgspec.msgpack.encode(table.packed()), type=PackedUsers))
        outcomes = table.apply(UserChanges(commands))
        if number >= cut:
            assert later.apply(UserChanges(commands)) == outcomes
        for command in commands:
            naive_step(naive, command)
        assert seen(table) == naive
        assert table.version == number + 1
    if cut < len(entries):
        assert later.packed() == table.packed()


@given(COMMANDS, st.lists(COMMANDS, max_size=4))
def test_a_command_that_comes_twice_does_what_it_does_once(command: UserCommand, before: list[UserCommand]) -> None:
    """Invariant 3."""
    once, twice = UserTable(), UserTable()
    for table in (once, twice):
        for each in before:
            table.apply(UserChanges((each,)))
    first = once.apply(UserChanges((command,)))
    assert twice.apply(UserChanges((command, command))) == first * 2
    assert once.by_name == twice.by_name


def test_what_is_there_is_bounded() -> None:
    """Invariant 5."""
    table = UserTable()
    for number in range(USERS_MAX):
        table.apply(UserChanges((AddUser(User(f"user-{number}")),)))
    assert table.apply(UserChanges((AddUser(User("more")),))) == (UserRefused("more", "full"),)
    many = Grant((), tuple(f"{number}/".encode() for number in range(USER_PREFIXES_MAX)))
    table.apply(UserChanges((GrantRights("user-1", many),)))
    assert table.apply(UserChanges((GrantRights("user-1", Grant((), (b"x",))),))) == (
        UserRefused("user-1", "prefixes"),
    )
    largest = User("a" * 64, Grant(("read", "append", "trim", "admin"), many.read_prefixes, many.read_prefixes))
    assert len(msgspec.msgpack.encode(table.packed())) <= table.size_bytes + 16
    assert len(msgspec.msgpack.encode(largest)) <= UserTable(PackedUsers(1, [largest])).size_bytes


def test_the_operator_is_nobody_that_can_be_changed() -> None:
    assert UserTable().apply(UserChanges((AddUser(User(OPERATOR)),))) == (UserRefused(OPERATOR, "reserved"),)


def test_an_outcome_says_nothing_of_tokens() -> None:
    """Invariant 2."""
    kept = TokenHash(b"s" * 16, b"d" * 32)
    (outcome,) = UserTable().apply(UserChanges((AddUser(User("alice", tokens=(kept,))),)))
    assert isinstance(outcome, UserStands)
    assert b"d" * 32 not in msgspec.msgpack.encode(outcome)


@pytest.mark.parametrize(
    "text", ["", "alice", "itk:alice:", "itk::secret", "itk:a b:secret", "itk:alice:x:y", "itk:é:x"]
)
def test_what_is_no_token_is_not_repeated(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_token(text)
    assert "secret" not in str(caught.value)


def test_a_token_is_of_its_user_and_of_its_salt() -> None:
    token = token_text("alice", bytes(range(32)))
    kept = hash_token(token, b"1" * 16, log2_n=1)
    assert parse_token(token).user == "alice"
    assert is_token(token, kept)
    assert not is_token(token_text("bob", bytes(range(32))), kept)
    assert hash_token(token, b"2" * 16, log2_n=1).digest != kept.digest
    assert "AAEC" not in repr(parse_token(token))


USERS = st.from_regex(r"\A[a-z][a-z0-9._@-]{0,6}\Z")
TEXTS = st.text(min_size=1, max_size=12)


@given(USERS, USERS, TEXTS, TEXTS)
def test_names_of_two_users_are_never_one(one: str, other: str, name: str, another: str) -> None:
    """Invariant 4."""
    kept = owned_name(one, name, bytes_max=255)
    assert owner_of(kept) == one
    assert said_name(one, kept) == name
    if (one, name) != (other, another):
        assert kept != owned_name(other, another, bytes_max=255)


@given(USERS, USERS, st.binary(min_size=16, max_size=16))
def test_a_stolen_token_of_a_part_is_that_of_no_part(one: str, other: str, token: bytes) -> None:
    """Invariant 4."""
    kept = owned_token(one, token)
    assert len(kept) == 16
    assert kept.endswith(owner_tag(one))
    assert kept != owned_token(one, kept)
    if one != other:
        assert kept != owned_token(other, token)


@pytest.mark.parametrize("right", ["read", "append", "trim", "admin"])
def test_a_right_is_named_that_is_missing(right: Right) -> None:
    with pytest.raises(NotAllowed) as caught:
        check_right("alice", Grant(), right)
    assert caught.value.right == right
    check_right("alice", parse_right(right), right)


def test_a_right_by_prefix_is_not_the_right() -> None:
    grant = parse_right("read:orders/")
    assert check_some("alice", grant, "read") == (b"orders/",)
    with pytest.raises(NotAllowed, match="orders/"):
        check_right("alice", grant, "read")
    with pytest.raises(InvalidInput):
        parse_right("trim:orders/")


@given(st.lists(st.tuples(st.floats(0, 2), st.integers(0, 200)), max_size=40))
def test_a_bucket_never_gives_more_than_its_rate(steps: list[tuple[float, int]]) -> None:
    now, taken = 0.0, 0.0
    bucket = Bucket(100, now)
    for wait, amount in steps:
        now += wait
        if bucket.wait_s(now) == 0:
            bucket.take(amount, now)
            taken += amount
            assert taken <= 100 + 100 * now + 200
        else:
            now += bucket.wait_s(now) + 1e-9
            assert bucket.wait_s(now) < 1e-6
