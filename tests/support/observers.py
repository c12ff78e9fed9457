"""Requests as libraries that record or trace them see them; a script, since they change their process."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from slashtag import AsyncSession, DateRange, UnknownTagError
from slashtag.sandbox import Sandbox

PASSWORD = "password-of-a-link"
# Warnings of failures that are meant.
logging.getLogger("slashtag").addHandler(logging.NullHandler())


async def job(box: Sandbox) -> tuple[int, int]:
    """List links, update one and count clicks; one request fails. Return the numbers of links and clicks."""
    async with AsyncSession(box.base_url, apikey=box.apikey, apisecret=box.apisecret) as session:
        links = await session.urls.list().to_list()
        await session.urls.update(links[0].id, password=PASSWORD)
        year = await session.stats.collect(DateRange("2024-01-01", "2024-12-31"), keys=links)
        with suppress(UnknownTagError):
            await session.stats.collect(DateRange("2024-01-01", "2024-01-02"), tag="no such tag")
    return len(links), year.total


def record_with_vcrpy(box: Sandbox) -> str:
    """Record the requests of a job with vcrpy, replay them without the service; return what was recorded."""
    import vcr

    cassette = Path("cassette.yaml")
    recorder = vcr.VCR(filter_headers=["apikey", "apisecret"])
    with recorder.use_cassette(str(cassette)) as recorded:
        answer = asyncio.run(job(box))
    assert len(recorded) == len(box.requests) > 30
    with recorder.use_cassette(str(cassette), record_mode="none") as replayed:
        assert asyncio.run(job(box)) == answer
    assert replayed.all_played
    return cassette.read_text().replace(PASSWORD, "")  # bodies are recorded, too


def trace_with_opentelemetry(box: Sandbox) -> str:
    """Let OpenTelemetry trace the requests of a job, a span with a status for each; return the spans."""
    from opentelemetry.instrumentation.aiohttp_client import AioHttpClientInstrumentor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    AioHttpClientInstrumentor().instrument(tracer_provider=provider)
    asyncio.run(job(box))
    spans: Any = exporter.get_finished_spans()
    statuses = Counter(
        span.attributes.get("http.status_code") or span.attributes["http.response.status_code"]
        for span in spans
    )
    assert statuses == Counter(request.status for request in box.requests)
    return "".join(span.to_json() for span in spans)


if __name__ == "__main__":
    with Sandbox(urls=250, clicks=3_000) as box:
        text = globals()[sys.argv[1]](box)
        assert not [secret for secret in (box.apikey, box.apisecret, PASSWORD) if secret in text]
