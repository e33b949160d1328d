"""A class as a kind of replicated state: its commands, and its state as bytes.

Every public method is a command. Its arguments are decoded by the annotations of its parameters. The state is what
`vars()` of the object has, decoded by the annotations of the class; a class that knows better has `to_snapshot` and
`from_snapshot`. One that can say the hash of its state without all of its bytes has `state_hash`.
"""

import inspect
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, Final, Generic, Protocol, TypeVar, get_type_hints, runtime_checkable

import msgspec

from ithaca.model.arguments import items, whole
from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import Corrupt, InvalidInput, NoSuchMethod, NotEncodable, WrongVersion
from ithaca.objects.encoding import encoded, encoded_as, ordered

State = TypeVar("State")

_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


_NO_COMMANDS: Final = frozenset({"to_snapshot", "state_hash", "kept_head", "keep", "release"})


@runtime_checkable
class Snapshots(Protocol):
    """A state that writes and reads its snapshots by itself; equal states give equal bytes."""

    def to_snapshot(self) -> bytes: ...

    @classmethod
    def from_snapshot(cls, data: bytes) -> Any: ...


@runtime_checkable
class Hashed(Protocol):
    """A state that keeps a hash of itself up to date."""

    def state_hash(self) -> bytes: ...


@runtime_checkable
class KeepsItself(Protocol):
    """A state in a file of its own, from which it goes on: it keeps how far it has come beside what came of that."""

    def kept_head(self) -> bytes | None: ...

    def keep(self, head: bytes) -> None: ...

    def release(self) -> None: ...


_UNCHANGED: Final = (bytes, str, int, bool, float)
"""Arguments of just these types, where they are declared, need not be decoded to know what comes back."""


class Method:
    """One command: how it is called, and how its arguments travel."""

    def __init__(self, kind: str, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        self.function = function
        self._what = f"{kind}.{name}"
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())[1:]
        for parameter in parameters:
            if parameter.kind not in _POSITIONAL:
                raise NoSuchMethod(
                    f"{self._what} cannot be a command: parameter {parameter.name} is of the kind "
                    f"{parameter.kind.description}, and commands have plain parameters"
                )
        self._signature = signature.replace(parameters=parameters)
        self._count = len(parameters)
        types = tuple(_types_of(function, self._what).get(parameter.name, Any) for parameter in parameters)
        self._unchanged = types if all(each in _UNCHANGED for each in types) else None
        self.decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(tuple[types])  # type: ignore[valid-type]
        self.decode = self.decoder.decode

    def encode(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> bytes:
        """The arguments as they are written; what a replica could not decode is refused here."""
        if named or len(arguments) != self._count:
            try:
                bound = self._signature.bind(*arguments, **named)
            except TypeError as error:
                raise InvalidInput(f"{self._what}{self._signature}: {error}") from error
            bound.apply_defaults()
            arguments = bound.args
        if tuple(map(type, arguments)) == self._unchanged:  # these come back as they are
            return encoded(arguments, f"the arguments of {self._what}")
        return encoded_as(self.decoder, arguments, f"the arguments of {self._what}")


class Kind(Generic[State]):
    """A class under a name and a version, as its commands say it."""

    def __init__(
        self, factory: Callable[[], State], of: type[State], *, name: str, version: int = 1, accepts: Sequence[int] = ()
    ) -> None:
        whole(version, "version", 1)
        for each in items(accepts, "accepts", "a list of versions, such as [1, 2]"):
            whole(each, "accepts", 1)
        self.name = name
        self.version = version
        self.accepts = tuple(sorted({version, *accepts}))
        self.of = of
        self.factory = factory
        self._methods: dict[str, Method] = {}
        # Asked once: in Python 3.11 a protocol takes as long to be asked as a command to be applied.
        self._writes_itself = issubclass(of, Snapshots)
        self.hashes_itself = issubclass(of, Hashed)
        self.keeps_itself = issubclass(of, KeepsItself)
        hints = {} if self._writes_itself else _types_of(of, name)
        self._decoders = {field: msgspec.msgpack.Decoder(hint) for field, hint in hints.items()}

    def method(self, method: str | Callable[..., Any]) -> Method:
        """The command of this name, or of this method of the class; `NoSuchMethod`."""
        name = method if isinstance(method, str) else getattr(method, "__name__", repr(method))
        found = self._methods.get(name)
        if found is None:
            found = self._methods[name] = Method(self.name, name, self._function(name))
        if not isinstance(method, str) and found.function is not method:
            raise NoSuchMethod(f"{method!r} is not a method of {self.name}: propose {self.name}.{name}")
        return found

    def _function(self, name: str) -> Callable[..., Any]:
        function = inspect.getattr_static(self.of, name, None)
        if name.startswith("_") or not inspect.isfunction(function) or name in _NO_COMMANDS:
            raise NoSuchMethod(f"{self.name} has no method {name!r} that can be proposed: there are {self._commands()}")
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise NoSuchMethod(
                f"{self.name}.{name} waits or yields, and a command does neither: make it a plain method"
            )
        return function

    def _commands(self) -> str:
        names = [name for name, _ in inspect.getmembers(self.of, inspect.isfunction) if name[0] != "_"]
        names = [name for name in names if name not in _NO_COMMANDS]
        return ", ".join(names) or "none"

    def check_version(self, version: int, what: str) -> None:
        """Refuse what another version of the class has written, unless this one says that it can apply it."""
        if version not in self.accepts:
            raise WrongVersion(
                f"{what} is of version {version} of {self.name}, and this program applies {_listed(self.accepts)}: "
                "start a program that knows it, or name it in `accepts` if the methods still do the same",
                found=version,
                supported=", ".join(map(str, self.accepts)),
            )

    # The state as bytes

    def encode_state(self, state: State, *, checked: bool = False) -> bytes:
        """Bytes that are the same for the same past; `checked`: and they are decoded to what is equal to this state."""
        if self._writes_itself:
            data: bytes = state.to_snapshot()  # type: ignore[attr-defined]
            return data
        fields = self._fields(state)
        if checked:
            for field, value in fields.items():
                decoder = self._decoders.get(field, _PLAIN)
                what = f"attribute {field!r} of {self.name}"
                encoded_as(decoder, value, what, encoded(ordered(value), what))
        return encoded(ordered(fields), f"the state of {self.name}")

    def decode_state(self, data: bytes) -> State:
        """The inverse; `Corrupt` when the bytes are none of this class."""
        if self._writes_itself:
            state: State = self.of.from_snapshot(data)  # type: ignore[attr-defined]
            return state
        try:
            fields = _FIELDS.decode(data)
            values = {name: self._decoders.get(name, _PLAIN).decode(raw) for name, raw in fields.items()}
        except UNDECODABLE as error:
            raise Corrupt(f"a snapshot of {self.name} cannot be decoded: {error}") from error
        state = self.of.__new__(self.of)
        for name, value in values.items():
            object.__setattr__(state, name, value)
        return state

    def hash_state(self, state: State, data: bytes | None = None) -> bytes:
        """16 bytes that are equal for equal states."""
        if self.hashes_itself:
            digest: bytes = state.state_hash()  # type: ignore[attr-defined]
            return digest
        return blake2b(self.encode_state(state) if data is None else data, digest_size=16).digest()

    def _fields(self, state: State) -> dict[str, Any]:
        try:
            return vars(state)
        except TypeError:
            pass
        fields = getattr(state, "__struct_fields__", None) or getattr(state, "__slots__", None)
        if fields is None:
            raise NotEncodable(f"{self.name} has no attributes to save: give it to_snapshot and from_snapshot")
        return {name: getattr(state, name) for name in fields}


_PLAIN: Final[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder()
_FIELDS: Final = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])


def _types_of(thing: Any, what: str) -> dict[str, Any]:
    try:
        return get_type_hints(thing)
    except (NameError, TypeError) as error:
        raise NotEncodable(f"the annotations of {what} cannot be resolved: {error}") from error


def _listed(versions: tuple[int, ...]) -> str:
    return (
        "version " + ", ".join(map(str, versions))
        if len(versions) == 1
        else f"versions {', '.join(map(str, versions))}"
    )
