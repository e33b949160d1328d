"""What a server counts, asked for over HTTP at its port as Prometheus does (`runtime.metrics`)."""

import asyncio

from prometheus_client.parser import text_string_to_metric_families

from ithaca.cluster.limits import METRICS_BYTES_MAX
from ithaca.model.errors import ProtocolError, Unavailable
from ithaca.model.limits import STATUS_TIMEOUT_S
from ithaca.model.security.tls import TLS
from ithaca.model.view import Address
from ithaca.runtime.tls.contexts import contexts_of


async def ask_metrics(address: Address, tls: TLS | None) -> dict[str, float]:
    """The counters and gauges of a server that have no labels, by their names."""
    try:
        async with asyncio.timeout(STATUS_TIMEOUT_S):
            answer = await _get(address, "/metrics", tls)
    except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
        raise Unavailable(f"{address} does not say what it counts: {str(error) or type(error).__name__}") from None
    head, _, body = answer.partition(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n", 1)[0]:
        raise ProtocolError(f"{address} answered GET /metrics with {head[:100]!r}")
    try:
        families = list(text_string_to_metric_families(body.decode()))
    except ValueError as error:
        raise ProtocolError(f"{address} says of its metrics what cannot be read: {error}") from None
    return {sample.name: sample.value for family in families for sample in family.samples if not sample.labels}


async def _get(address: Address, path: str, tls: TLS | None) -> bytes:
    context = None if tls is None else contexts_of(tls).dialling
    reader, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
    try:
        writer.write(f"GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n".encode())
        answer = await reader.read(METRICS_BYTES_MAX)
        while chunk := await reader.read(METRICS_BYTES_MAX):
            answer += chunk
            if len(answer) > METRICS_BYTES_MAX:
                raise ProtocolError(f"{address} answers GET {path} with more than {METRICS_BYTES_MAX} bytes")
        return answer
    finally:
        writer.close()
