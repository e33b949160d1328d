"""What a setting may be, and what to say of one that is not."""

import re
from dataclasses import dataclass
from typing import Any, Literal

from ithaca.model.config.toml_lines import did_you_mean
from ithaca.model.errors import InvalidInput
from ithaca.model.units import parse_duration, parse_size

_SHOWN_CHARS_MAX = 200
_QUOTES = "'\""
_WORD = re.compile(r"[a-z][a-z0-9-]*")


def shown(value: object) -> str:
    """A value as it is written, for a message; shortened where it is long.

    >>> shown([1, "two"]), shown(1 << 100_000)
    ("[1, 'two']", 'a number without end')
    """
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of more than 4,300 digits
        return "a number without end"
    return text if len(text) <= _SHOWN_CHARS_MAX else f"{text[:_SHOWN_CHARS_MAX]}..."


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]

    def parse(self, text: str) -> object:
        return text

    def problem(self, value: object) -> str | None:
        """What is wrong with the value, or None."""
        if value in self.words:
            return None
        text = shown(value)
        return f"is {text}{did_you_mean(text.strip(_QUOTES), self.words)}: use one of {', '.join(self.words)}"


@dataclass(frozen=True, slots=True)
class Number:
    """A number of `[low, high]`, whole or not."""

    low: float
    high: float
    whole: bool = True

    def parse(self, text: str) -> object:
        try:
            return int(text) if self.whole else float(text)
        except ValueError:
            return text

    def problem(self, value: object) -> str | None:
        kinds = int if self.whole else int | float
        if isinstance(value, kinds) and not isinstance(value, bool) and self.low <= value <= self.high:
            return None
        return f"is {shown(value)}: use a {'whole ' * self.whole}number from {self.low} to {self.high}"


_SECONDS = {"s": 1.0, "ms": 1e-3}


@dataclass(frozen=True, slots=True)
class Amount:
    """A number of bytes, seconds or milliseconds; or text with a unit, such as "10GB" or "7d"."""

    number: Number
    unit: Literal["bytes", "s", "ms"]

    def parse(self, text: str) -> object:
        return self.number.parse(text)

    def value(self, given: object) -> object:
        """The number that was meant; what is no amount stays as it is.

        >>> Amount(Number(1, 1 << 40), "bytes").value("64K"), Amount(Number(1, 1_000_000), "s").value("7d")
        (65536, 604800)
        """
        if not isinstance(given, str):
            return given
        try:
            if self.unit == "bytes":
                return parse_size(given)
            unit_s = _SECONDS[self.unit]
            amount = parse_duration(given, bare_s=unit_s) / unit_s
        except InvalidInput:
            return given
        return int(amount) if amount.is_integer() else amount

    def problem(self, value: object) -> str | None:
        if self.number.problem(self.value(value)) is None:
            return None
        text = '"64K" or "10GB"' if self.unit == "bytes" else '"500ms" or "7d"'
        return f"{self.number.problem(value)}, or text with a unit, such as {text}"


@dataclass(frozen=True, slots=True)
class Flag:
    """Yes or no."""

    def problem(self, value: object) -> str | None:
        return None if isinstance(value, bool) else f"is {shown(value)}: use true or false"


@dataclass(frozen=True, slots=True)
class Text:
    """Words on one line, for people."""

    chars_max: int

    def problem(self, value: object) -> str | None:
        if isinstance(value, str) and value.isprintable() and len(value) <= self.chars_max:
            return None
        return f"is {shown(value)}: use text in quotes, on one line, of at most {self.chars_max} characters"


@dataclass(frozen=True, slots=True)
class Word:
    """A name that programs compare."""

    chars_max: int

    def problem(self, value: object) -> str | None:
        if isinstance(value, str) and 0 < len(value) <= self.chars_max and _WORD.fullmatch(value):
            return None
        return f"is {shown(value)}: use lower-case letters, digits and hyphens, at most {self.chars_max} of them"


@dataclass(frozen=True, slots=True)
class Texts:
    """A list of texts, each looked at by whoever knows what they mean."""

    def problem(self, value: object) -> str | None:
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return None
        return f'is {shown(value)}: use a list of texts, such as ["127.0.0.1:7603", "127.0.0.1:7604"]'


@dataclass(frozen=True, slots=True)
class AllOrNames:
    """Yes, no, or a list of names."""

    def problem(self, value: object) -> str | None:
        if isinstance(value, bool) or (isinstance(value, list) and all(isinstance(each, str) for each in value)):
            return None
        return f'is {shown(value)}: use true, false, or a list of names, such as ["billing", "audit"]'


Rule = Choice | Number | Amount | Flag | Text | Word | Texts | AllOrNames


def meant(rule: Rule, value: object) -> Any:
    """A value without a problem, as the program takes it."""
    return rule.value(value) if isinstance(rule, Amount) else value
