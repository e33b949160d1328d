"""The handle of a cluster."""

from ithaca.client.settings import ClientSettings
from ithaca.engines.belfast.client.reading import SlotReading
from ithaca.engines.belfast.client.speculation import AsyncSpeculation
from ithaca.engines.belfast.name import NAME
from ithaca.engines.scalog.client.admin.admin import AsyncClusterAdmin
from ithaca.engines.scalog.client.context import Context, open_context
from ithaca.engines.scalog.client.links import Links
from ithaca.engines.scalog.client.log import AsyncClusterLog
from ithaca.model.records import KeyFilter, Start
from ithaca.model.view import Address
from ithaca.runtime.checks import check_filter, check_start


class AsyncSlotLog(AsyncClusterLog):
    """A handle on a cluster of this engine."""

    def _make_admin(self, context: Context) -> AsyncClusterAdmin:
        return AsyncClusterAdmin(context)

    def speculate(self, start: Start = "latest", *, where: KeyFilter | None = None) -> AsyncSpeculation:
        self._context.check()
        check_start(start)
        check_filter(where)
        return AsyncSpeculation(self._context, start, where)


async def open_log(addresses: tuple[Address, ...], settings: ClientSettings) -> AsyncSlotLog:
    """A handle on the cluster that has these orderers; `Unavailable` when none of them answers in time."""
    links = Links(NAME, settings.tls, settings.token)
    context = await open_context(addresses, settings.timeout_s, links, make_reading=SlotReading)
    return AsyncSlotLog(context, settings)
