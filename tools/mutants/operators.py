"""Which mistakes are made: every place of a module at which one operator makes another program.

Left alone are docstrings, texts, annotations, decorators, `assert`, log lines, `__repr__` and `__str__`,
unions of types, and calls of `asyncio` that only wait.
"""

import ast
import copy
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_OTHER_END = {"min": "max", "max": "min"}
_LOGS = ("_log", "log", "logger", "logging")
_LOG_VERBS = ("debug", "info", "warning", "error", "exception", "critical")
_NULL: dict[str, int | float | bytes | str] = {"int": 0, "float": 0.0, "bytes": b"", "str": "", "bool": False}


@dataclass(frozen=True)
class Statement:
    """One statement, named so that changes elsewhere in its module leave the name as it is."""

    module: str
    scope: str
    text: str
    nth: int
    """Among those of the same text in the same scope."""
    line: int
    in_function: bool

    @property
    def key(self) -> str:
        return f"{self.module}|{self.scope}|{self.text}|{self.nth}"


@dataclass(frozen=True)
class Mutant:
    """One mistake."""

    statement: Statement
    operator: str
    new: str
    """The statement's text with the mistake in it."""
    nth: int
    """Among those that look the same, as the second `+` of `1 + 1 + 1` may."""

    @property
    def key(self) -> str:
        text = f"{self.statement.key}|{self.operator}|{self.new}|{self.nth}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class _Change:
    """A place in the tree, and what comes there."""

    statement: ast.stmt
    operator: str
    owner: ast.AST
    field: str
    index: int | None
    new: object

    def swap(self, new: object) -> object:
        """Put something there; what was there is returned."""
        if self.index is None:
            old = getattr(self.owner, self.field)
            setattr(self.owner, self.field, new)
        else:
            sequence = getattr(self.owner, self.field)
            old, sequence[self.index] = sequence[self.index], new
        return old


def statements(module: str, tree: ast.Module) -> dict[int, Statement]:
    """Every statement by the identity of its node."""
    seen: Counter[tuple[str, str]] = Counter()
    found = {}
    for node, scope, in_function in _walk(tree, "", False):
        text = header(node)
        found[id(node)] = Statement(module, scope, text, seen[scope, text], node.lineno, in_function)
        seen[scope, text] += 1
    return found


def _walk(node: ast.AST, scope: str, in_function: bool) -> Iterator[tuple[ast.stmt, str, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child, scope, in_function
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{scope}.{child.name}" if scope else child.name
            yield from _walk(child, inner, in_function or not isinstance(child, ast.ClassDef))
        else:
            yield from _walk(child, scope, in_function)


def header(node: ast.stmt) -> str:
    """The statement in one line, without the block below it."""
    bare = copy.copy(node)
    for field in ("body", "orelse", "finalbody", "handlers", "cases", "decorator_list"):
        if isinstance(getattr(bare, field, None), list):
            setattr(bare, field, [ast.Pass()] if field == "body" else [])
    if isinstance(bare, ast.Try | ast.Match):
        return ast.unparse(bare.subject) if isinstance(bare, ast.Match) else "try"
    text = " ".join(ast.unparse(bare).split())
    return text.removesuffix(" pass") if hasattr(node, "body") else text


def mutants(module: str, source: str) -> list[Mutant]:
    """All of a module, in the order of its lines."""
    tree = ast.parse(source)
    named = statements(module, tree)
    seen: Counter[tuple[str, str, str]] = Counter()
    found = []
    for change in _changes(tree):
        statement = named[id(change.statement)]
        new = _mutated_text(change)
        same = (statement.key, change.operator, new)
        found.append(Mutant(statement, change.operator, new, seen[same]))
        seen[same] += 1
    return found


def mutated(module: str, source: str, mutant: Mutant) -> ast.Module:
    """The module with the mistake in it."""
    tree = ast.parse(source)
    for change, other in zip(_changes(tree), mutants(module, source), strict=True):
        if other.key == mutant.key:
            change.swap(change.new)
            return ast.fix_missing_locations(tree)
    raise LookupError(f"{module} has no mutant {mutant.key} any more")


def _mutated_text(change: _Change) -> str:
    if isinstance(change.new, ast.stmt):
        return header(change.new)
    old = change.swap(change.new)
    text = header(change.statement)
    change.swap(old)
    return text


def _changes(tree: ast.Module) -> list[_Change]:
    found: list[_Change] = []
    _visit(tree, None, None, found)
    return found


def _visit(owner: ast.AST, statement: ast.stmt | None, returns: str | None, found: list[_Change]) -> None:
    for field, value in ast.iter_fields(owner):
        if field in ("annotation", "returns", "decorator_list", "type_params") or _is_docstring(owner, field):
            continue
        children = value if isinstance(value, list) else [value]
        for index, child in enumerate(children):
            if not isinstance(child, ast.AST) or _is_left_alone(child):
                continue
            inside = child if isinstance(child, ast.stmt) else statement
            if inside is not None:
                position = index if isinstance(value, list) else None
                for operator, new in _replacements(child, owner, field, returns):
                    found.append(_Change(inside, operator, owner, field, position, new))
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                _visit(child, inside, "" if child.returns is None else ast.unparse(child.returns), found)
            else:
                _visit(child, inside, returns, found)


def _is_docstring(owner: ast.AST, field: str) -> bool:
    return isinstance(owner, ast.Expr) and field == "value" and isinstance(owner.value, ast.Constant)


def _is_left_alone(node: ast.AST) -> bool:
    if isinstance(node, ast.JoinedStr | ast.Assert | ast.Import | ast.ImportFrom | ast.arg):
        return True
    if isinstance(node, ast.FunctionDef) and node.name in ("__repr__", "__str__"):
        return True
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return True
    if isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Attribute | ast.Subscript):
        return ast.unparse(node.targets[0]) in ("__all__", "__slots__")
    return isinstance(node, ast.Expr) and _is_quiet_call(node.value)


def _is_quiet_call(node: ast.expr) -> bool:
    """A log line, or a wait of asyncio."""
    call = node.value if isinstance(node, ast.Await) else node
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    owner = ast.unparse(call.func.value).rpartition(".")[2]
    return (owner in _LOGS and call.func.attr in _LOG_VERBS) or (isinstance(node, ast.Await) and owner == "asyncio")


def _replacements(node: ast.AST, owner: ast.AST, field: str, returns: str | None) -> Iterator[tuple[str, ast.AST]]:
    """What may come for a node: the operator, and the other node."""
    for operator, make in _EXPRESSIONS.items():
        new = make(node)
        if new is not None:
            yield operator, new
    if isinstance(node, ast.Compare):
        for at, comparison in enumerate(node.ops):
            changed = copy.copy(node)
            changed.ops = [*node.ops[:at], _COMPARED[type(comparison)](), *node.ops[at + 1 :]]
            yield "compare", changed
    if (
        field == "test"
        and isinstance(owner, ast.If | ast.IfExp)
        and isinstance(node, ast.Name | ast.Attribute | ast.Call)
    ):
        yield "negate", ast.UnaryOp(ast.Not(), node)
    if isinstance(node, ast.Return) and node.value is not None:
        yield from _returned(node, returns or "")
    if _is_effect(node):
        yield "remove", ast.Pass()


def _computed(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.BinOp) and type(node.op) in _COMPUTED and not _has_text(node) and not _is_type(node.right):
        return ast.BinOp(node.left, _COMPUTED[type(node.op)](), node.right)
    if isinstance(node, ast.AugAssign) and type(node.op) in _COMPUTED and not _has_text(node.value):
        return ast.AugAssign(node.target, _COMPUTED[type(node.op)](), node.value)
    return None


def _has_text(node: ast.AST) -> bool:
    """Texts are put together with the same signs as numbers."""
    return any(
        isinstance(each, ast.JoinedStr) or (isinstance(each, ast.Constant) and isinstance(each.value, str))
        for each in ast.walk(node)
    )


def _is_type(node: ast.expr) -> bool:
    """The last of `A | B`, or `A | None`."""
    name = ast.unparse(node).rpartition(".")[2]
    return name[:1].isupper() and not name.isupper()


def _counted(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return ast.Constant(node.value + 1)
    return None


def _joined(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.BoolOp):
        return ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    return None


def _affirmed(node: ast.AST) -> ast.AST | None:
    return node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) else None


def _other_end(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _OTHER_END:
        return ast.Call(ast.Name(_OTHER_END[node.func.id], ast.Load()), node.args, node.keywords)
    return None


_EXPRESSIONS: dict[str, Callable[[ast.AST], ast.AST | None]] = {
    "compute": _computed,
    "count": _counted,
    "join": _joined,
    "affirm": _affirmed,
    "other end": _other_end,
}


def _returned(node: ast.Return, returns: str) -> Iterator[tuple[str, ast.AST]]:
    """Something else of the type that was promised."""
    if isinstance(node.value, ast.Constant) and isinstance(node.value.value, bool):
        yield "return", ast.Return(ast.Constant(not node.value.value))
    elif isinstance(node.value, ast.Constant):
        return
    elif returns == "bool":
        yield "return", ast.Return(ast.Constant(True))
        yield "return", ast.Return(ast.Constant(False))
    else:
        yield "return", ast.Return(ast.Constant(_NULL.get(returns)))


def _is_effect(node: ast.AST) -> bool:
    """A statement that is there for what it does to something else."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call | ast.Await)
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
    return isinstance(node, ast.AugAssign | ast.Delete)
