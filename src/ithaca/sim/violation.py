"""What ends a run early."""


class Violation(Exception):
    """Something that must never happen has happened; `rule` is its name in docs/proof.md."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"{rule}: {text}")
        self.rule = rule
