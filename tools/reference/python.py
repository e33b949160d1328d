"""Classes, functions and types as Markdown: annotations as they are written, defaults as the values that they have."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_origin

from tools.reference.docstring import markdown

Function = ast.FunctionDef | ast.AsyncFunctionDef
WIDTH = 100
SHOWN_DUNDERS = {"__getitem__": "[position]"}
"""Special methods that people write as something else."""
PARTS = frozenset({"ReplicaBase", "VersionsBase", "Opening"})
"""Bases without a heading of their own: what they have is shown with the classes that people use."""


def section(module: str, name: str, thing: Any, links: Mapping[str, str]) -> str:
    """What a public name is, under a heading of its own."""
    if inspect.isclass(thing):
        return _class(module, name, thing, links)
    if inspect.isfunction(thing):
        node = _parsed(thing)
        assert isinstance(node, Function)
        said = _signature(node, f"{module}.{name}", thing)
        return f"## {name}\n\n{_block(said)}\n\n{markdown(ast.get_docstring(node), links, name)}\n"
    return f"## {name}\n\n{_block(f'{module}.{name} = {thing!r}')}\n"


def alias(module: Any, name: str, links: Mapping[str, str]) -> str:
    """A name that stands for a type, as it is written in its module."""
    body = ast.parse(inspect.getsource(module)).body
    for number, node in enumerate(body):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            said = _string(body[number + 1]) if number + 1 < len(body) else None
            return f"## {name}\n\n{_block(ast.unparse(node))}\n\n{markdown(said, links, name)}\n"
    raise LookupError(f"{module.__name__} has no {name}")


def _class(module: str, name: str, kind: type[Any], links: Mapping[str, str]) -> str:
    node = _parsed(kind)
    assert isinstance(node, ast.ClassDef)
    bases = [base.__name__ for base in kind.__bases__ if base.__name__ in links or issubclass(base, Exception)]
    head = f"class {module}.{name}" + (f"({', '.join(bases)})" if bases else "")
    parts = [f"## {name}", _block(head), markdown(ast.get_docstring(node), links, name)]
    above = [f"[`{base}`]({links[base]})" for base in bases if base in links]
    if above:
        parts.append(f"Also has everything that {' and '.join(above)} has.")
    fields = list(_fields(kind, node, links))
    if fields:
        parts.append("\n".join(fields))
    shown: set[str] = set()
    for each in [kind, *(base for base in kind.__mro__[1:] if base.__name__ in PARTS)]:
        of = _parsed(each)
        assert isinstance(of, ast.ClassDef)
        parts += _members(name, kind, of, links, shown)
    return "\n\n".join(part for part in parts if part) + "\n"


def _fields(kind: type[Any], node: ast.ClassDef, links: Mapping[str, str]) -> Iterator[str]:
    """The attributes, with their defaults and what is said of them."""
    for number, each in enumerate(node.body):
        if not isinstance(each, ast.AnnAssign) or ast.unparse(each.target).startswith("_"):
            continue
        annotation = ast.unparse(each.annotation)
        shown = f"`{ast.unparse(each.target)}: {annotation}`"
        if each.value is not None:
            shown = f"`{ast.unparse(each.target)}: {annotation} = {ast.unparse(each.value)}`"
        said = _string(node.body[number + 1]) if number + 1 < len(node.body) else None
        yield f"- {shown}" + (f": {' '.join(markdown(said, links).split())}" if said else "")


def _members(
    name: str, kind: type[Any], node: ast.ClassDef, links: Mapping[str, str], shown: set[str]
) -> Iterator[str]:
    """Those that stand in this class or part of it, and were not shown before."""
    functions = {each.name: each for each in node.body if isinstance(each, Function)}  # of overloads the last
    for base in kind.__mro__[1:]:
        if base.__module__.startswith("ithaca.") and base.__name__ not in links:  # nobody else shows what it has
            above = _parsed(base)
            assert isinstance(above, ast.ClassDef)
            inherited = {each.name: each for each in above.body if isinstance(each, Function) and each.name[0] != "_"}
            functions = functions | {name: each for name, each in inherited.items() if name not in functions}
    for member, function in functions.items():
        if member.startswith("_") and member != "__init__" and member not in SHOWN_DUNDERS:
            continue
        if member in shown:
            continue
        shown.add(member)
        made = inspect.getattr_static(kind, member)
        if isinstance(made, property):
            returned = _written(function.returns) if function.returns else "None"
            yield f"### {name}.{member}\n\n{_block(f'{name}.{member}: {returned}')}"
        else:
            if ast.get_docstring(function) is None and member != "__init__":
                continue  # what a framework calls
            called = made.__func__ if isinstance(made, classmethod | staticmethod) else made
            title = f"{name}(...)" if member == "__init__" else f"{name}{SHOWN_DUNDERS.get(member, f'.{member}')}"
            said = name if member == "__init__" else f"{name}.{member}"
            yield f"### {title}\n\n{_block(_signature(function, said, called))}"
        yield markdown(ast.get_docstring(function), links, name)


def _signature(node: Function, name: str, function: Callable[..., Any]) -> str:
    """The call with every parameter and the values of its defaults."""
    defaults = {each.name: each.default for each in inspect.signature(function).parameters.values()}
    arguments = node.args
    shown: list[str] = []
    positional = arguments.posonlyargs + arguments.args
    for each in positional:
        if each.arg not in ("self", "cls"):
            shown.append(_parameter(each, defaults))
    if arguments.vararg is not None:
        shown.append(f"*{_parameter(arguments.vararg, {})}")
    elif arguments.kwonlyargs:
        shown.append("*")
    shown += [_parameter(each, defaults) for each in arguments.kwonlyargs]
    if arguments.kwarg is not None:
        shown.append(f"**{_parameter(arguments.kwarg, {})}")
    prefix = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    returned = "" if node.name == "__init__" or node.returns is None else f" -> {_written(node.returns)}"
    line = f"{prefix}{name}({', '.join(shown)}){returned}"
    if len(line) <= WIDTH:
        return line
    return f"{prefix}{name}(\n" + "".join(f"    {each},\n" for each in shown) + f"){returned}"


def _parameter(argument: ast.arg, defaults: Mapping[str, Any]) -> str:
    said = argument.arg if argument.annotation is None else f"{argument.arg}: {_written(argument.annotation)}"
    default = defaults.get(argument.arg, inspect.Parameter.empty)
    if default is inspect.Parameter.empty:
        return said
    return f"{said} = {default!r}"


def _written(annotation: ast.expr) -> str:
    """As it is written, without the modules of our own classes."""
    return re.sub(r"\b(interface|awaited)\.", "", ast.unparse(annotation))


def _parsed(thing: Any) -> ast.stmt:
    origin = get_origin(thing) or thing
    return ast.parse(textwrap.dedent(inspect.getsource(origin))).body[0]


def _string(node: ast.stmt) -> str | None:
    """What stands under an attribute to explain it."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return node.value.value
    return None


def _block(code: str) -> str:
    return f"```python\n{code}\n```"
