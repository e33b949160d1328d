"""The reference has every public name, every parameter and every command; pages and links of the docs are there."""

import doctest
import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tools.reference import commands, docstring, pages

from ithaca.model.config.log import load_settings
from ithaca.model.engine import FEATURES, Feature
from ithaca.server.process import SUPERVISOR

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
TEXTS = pages.texts()


def test_the_example_of_the_tool_holds() -> None:
    found = doctest.testmod(docstring)
    assert found.attempted
    assert not found.failed


@pytest.mark.parametrize("module", sorted({page.module for page in pages.PAGES}))
def test_every_public_name_stands_on_one_page(module: str) -> None:
    found = [name for page in pages.PAGES if page.module == module for name in pages.names_of(page)]
    found += [name for page in pages.PAGES if page.module == module for name, _ in page.aliases]
    public = set(import_module(module).__all__) - pages.NOT_HERE
    assert public <= set(found)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.file)
def test_every_parameter_is_there_with_its_default(page: pages.Page) -> None:
    text = TEXTS[pages.TARGET / page.file]
    for name in pages.names_of(page):
        thing = getattr(import_module(page.module), name)
        functions: dict[str, Any] = {f"{page.module}.{name}": thing} if inspect.isfunction(thing) else {}
        if inspect.isclass(thing):
            own = {member: made for member, made in vars(thing).items() if inspect.isfunction(made)}
            functions |= {f"{name}.{member}": made for member, made in own.items() if member[0] != "_" and made.__doc__}
        for title, function in functions.items():
            said = re.search(rf"```python\n{re.escape(title)}\((.*?)\)(?: -> [^\n]*)?\n```", text, re.DOTALL)
            assert said is not None, title
            for parameter in inspect.signature(function).parameters.values():
                if parameter.name != "self":
                    assert re.search(rf"\b{parameter.name}\b", said[1]), f"{title} lacks {parameter.name}"
                if parameter.default is not inspect.Parameter.empty:
                    assert f"{parameter.default!r}" in said[1], f"{title} lacks the default of {parameter.name}"


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.file)
def test_every_member_of_a_class_is_there(page: pages.Page) -> None:
    """What it inherits from a class that is public stands there."""
    text = "\n".join(TEXTS.values())
    for name in pages.names_of(page):
        thing = getattr(import_module(page.module), name)
        if inspect.isclass(thing) and thing.__module__.startswith("ithaca."):
            for member, made in inspect.getmembers(thing, inspect.isfunction):
                owner = next(kind for kind in thing.__mro__ if member in vars(kind))
                if member[0] != "_" and made.__doc__ and made.__module__.startswith("ithaca."):
                    titles = [f"### {name}.{member}\n", f"### {owner.__name__}.{member}\n"]
                    assert any(title in text for title in titles), titles[0]


def test_every_command_is_there() -> None:
    text = commands.page()
    for command in (
        "ithaca append",
        "ithaca up",
        "ithaca shard replicas replace",
        "ithaca bench append",
        "ithaca demo",
    ):
        assert f"\n## {command}\n" in text
    assert "| `--batch` | `" in text
    assert "| `--timeout` | `30s` |" in text


def test_every_setting_has_its_variable_in_the_guide() -> None:
    text = (ROOT / "docs" / "guides" / "settings.md").read_text(encoding="utf-8")
    settings = [f"ITHACA_{name.upper()}" for name in load_settings(environ={}).__slots__]
    for variable in [*settings, "ITHACA_CONFIG", "ITHACA_PATH", "ITHACA_BOOTSTRAP"]:
        assert f"| `{variable}` |" in text


def test_every_variable_that_is_read_is_in_the_guide() -> None:
    text = (ROOT / "docs" / "guides" / "settings.md").read_text(encoding="utf-8")
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    read = {variable for source in sources for variable in re.findall(r"\bITHACA_[A-Z_]*[A-Z]\b", source)}
    assert {"ITHACA_PATH", "ITHACA_DURABILITY", "ITHACA_TLS_KEY", "ITHACA_TOKEN"} <= read
    ours = {SUPERVISOR}  # what a supervisor tells the servers that it starts
    assert [variable for variable in sorted(read - ours) if f"`{variable}`" not in text] == []


def test_the_guide_says_what_each_engine_can_do() -> None:
    lines = (ROOT / "docs" / "guides" / "cluster.md").read_text(encoding="utf-8").splitlines()
    head = next(line for line in lines if line.startswith("| | `scalog`"))
    ours = {name: features for name, features in FEATURES.items() if not name.endswith("toy")}  # other tests have those
    assert re.findall(r"`(\w+)`", head) == list(ours)
    for feature in Feature:
        [row] = [line for line in lines if line.startswith(f"| {feature.value} |")]
        said = [cell.strip() == "yes" for cell in row.strip("|").split("|")[1:]]
        assert said == [feature in features for features in ours.values()], feature


def test_the_site_has_every_page() -> None:
    listed = re.findall(r": ([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(str(page.relative_to(ROOT / "docs")) for page in PAGES)


def without_code(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links."""
    headings = re.findall(r"^#+ (.+)$", without_code(page), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page)):
        if re.match(r"\w+:", target):
            continue
        file, _, anchor = target.partition("#")
        other = (page.parent / file).resolve() if file else page
        assert other.exists(), target
        assert not anchor or anchor in anchors(other), target
