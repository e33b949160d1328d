"""What a setting may be, and what to say of one that is not."""

from dataclasses import dataclass

from ithaca.model.toml_lines import did_you_mean


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
        return f"is {value!r}{did_you_mean(str(value), self.words)}: use one of {', '.join(self.words)}"


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
        return f"is {value!r}: use a {'whole ' * self.whole}number from {self.low} to {self.high}"


@dataclass(frozen=True, slots=True)
class Flag:
    """Yes or no."""

    def problem(self, value: object) -> str | None:
        return None if isinstance(value, bool) else f"is {value!r}: use true or false"


@dataclass(frozen=True, slots=True)
class Text:
    """Words on one line, for people."""

    chars_max: int

    def problem(self, value: object) -> str | None:
        if isinstance(value, str) and value.isprintable() and len(value) <= self.chars_max:
            return None
        return f"is {value!r}: use text in quotes, on one line, of at most {self.chars_max} characters"


@dataclass(frozen=True, slots=True)
class Texts:
    """A list of texts, each looked at by whoever knows what they mean."""

    def problem(self, value: object) -> str | None:
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return None
        return f'is {value!r}: use a list of texts, such as ["127.0.0.1:7603", "127.0.0.1:7604"]'


Rule = Choice | Number | Flag | Text | Texts
