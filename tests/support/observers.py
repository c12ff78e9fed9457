"""Requests as libraries that record or trace them see them; a script, since they change their process."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

PASSWORD = "password-of-a-link"
# Warnings of failures that are meant.
logging.getLogger("slashtag").addHandler(logging.NullHandler())


async def _job(base_url: str, apikey: str, apisecret: str) -> tuple[int, int]:
    """List links, update one and count clicks; one request fails. Return the numbers of links and clicks."""
    from slashtag import AsyncSession, DateRange, UnknownTagError

    async with AsyncSession(base_url, apikey=apikey, apisecret=apisecret) as session:
        links = await session.urls.list().to_list()
        await session.urls.update(links[0].id, password=PASSWORD)
        year = await session.stats.collect(DateRange("2024-01-01", "2024-12-31"), keys=links)
        with suppress(UnknownTagError):
            await session.stats.collect(DateRange("2024-01-01", "2024-01-02"), tag="no such tag")
    return len(links), year.total


def _without_secrets(text: str, box: object, *more: str) -> str:
    """Raise for a text that has a credential or a password."""
    found = [secret for secret in (box.apikey, box.apisecret, *more) if secret in text]
    assert not found, found
    return text


def record_with_vcrpy() -> str:
    """Record the requests of a job with vcrpy, and replay them without the service."""
    import vcr

    from slashtag.sandbox import Sandbox

    cassette = Path("cassette.yaml")
    recorder = vcr.VCR(filter_headers=["apikey", "apisecret"])
    with Sandbox(urls=250, clicks=3_000) as box:
        account = box.base_url, box.apikey, box.apisecret
        with recorder.use_cassette(str(cassette)) as recorded:
            answer = asyncio.run(_job(*account))
        sent = len(box.requests)
    assert len(recorded) == sent, (len(recorded), sent)
    with recorder.use_cassette(str(cassette), record_mode="none") as replayed:
        again = asyncio.run(_job(*account))
    assert again == answer, (again, answer)
    assert replayed.all_played
    _without_secrets(cassette.read_text(), box)
    links, clicks = answer
    return f"{sent} requests recorded, {replayed.play_count} replayed: {links} links, {clicks} clicks, twice"


def trace_with_opentelemetry() -> str:
    """Let OpenTelemetry trace the requests of a job: a span with a status for each, no credential in any."""
    from opentelemetry.instrumentation.aiohttp_client import AioHttpClientInstrumentor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from slashtag.sandbox import Sandbox

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    AioHttpClientInstrumentor().instrument(tracer_provider=provider)
    try:
        with Sandbox(urls=250, clicks=3_000) as box:
            asyncio.run(_job(box.base_url, box.apikey, box.apisecret))
            sent = Counter(str(request.status) for request in box.requests)
    finally:
        AioHttpClientInstrumentor().uninstrument()
    spans = exporter.get_finished_spans()
    seen = Counter(
        str(span.attributes.get("http.status_code") or span.attributes["http.response.status_code"])
        for span in spans
    )
    assert seen == sent, (seen, sent)
    _without_secrets("".join(span.to_json() for span in spans), box, PASSWORD)
    return f"{len(spans)} spans of {sent.total()} requests, by status {dict(seen)}; no credential in any"


if __name__ == "__main__":
    print(globals()[sys.argv[1]]())
