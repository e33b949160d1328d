"""The engines that are part of the product; tests register others beside them."""

from ithaca.engines import registry

ENGINES = [name for name in registry.names() if not name.endswith("toy")]
