"""Bounds that fields of messages have in common."""

from typing import Annotated

from msgspec import Meta

from ithaca.model.limits import HELLO_TEXT_BYTES_MAX

Natural = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Counted = Annotated[int, Meta(ge=1, le=(1 << 63) - 1)]
Text = Annotated[str, Meta(max_length=HELLO_TEXT_BYTES_MAX)]
