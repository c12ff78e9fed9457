"""Requests as libraries that record or trace them see them; a script, since they change their process."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

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


def report_to_sentry() -> str:
    """Let Sentry trace a job and report an error: a span for each request, no credential in any."""
    import sentry_sdk
    from sentry_sdk.transport import Transport

    from slashtag import AsyncSession, RetryPolicy, SlashtagError
    from slashtag.sandbox import Fault, Sandbox

    class Kept(Transport):
        envelopes: ClassVar[list[object]] = []

        def capture_envelope(self, envelope: object) -> None:
            self.envelopes.append(envelope)

        def flush(self, *_: object, **__: object) -> None:
            """Do nothing: nothing is sent."""

    sentry_sdk.init(dsn="http://key@sentry.example/1", traces_sample_rate=1.0, transport=Kept)

    async def failing(box: Sandbox) -> None:
        """Report errors, each with the variables of all frames."""
        policy = RetryPolicy(max_attempts=2)
        account = {"apikey": box.apikey, "apisecret": box.apisecret}
        async with AsyncSession(box.base_url, **account, timeout=1, retry=policy) as session:
            account.clear()
            for kind in ("404", "html-502", "html-200", "reset", "stall"):
                box.faults = [Fault(kind=kind)]
                try:
                    await session.urls.update("no-such-link", password=PASSWORD)
                except SlashtagError as error:
                    sentry_sdk.capture_exception(error)

    with Sandbox(urls=250, clicks=3_000) as box:
        with sentry_sdk.start_transaction(name="job"):
            asyncio.run(_job(box.base_url, box.apikey, box.apisecret))
        sent = Counter(str(request.status) for request in box.requests)
        asyncio.run(failing(box))
    sentry_sdk.flush()
    events = [
        item.payload.json for envelope in Kept.envelopes for item in envelope.items if item.payload.json
    ]
    spans = [span for event in events for span in event.get("spans", ()) if span["op"] == "http.client"]
    seen = Counter(span["tags"]["http.status_code"] for span in spans)
    reports = sum("exception" in event for event in events)
    assert seen == sent, (seen, sent)
    assert reports == 5, reports
    _without_secrets(json.dumps(events, default=str), box, PASSWORD)
    return (
        f"{len(spans)} spans of {sent.total()} requests, by status {dict(seen)}; {reports} errors "
        "with their variables; no credential in any"
    )


if __name__ == "__main__":
    print(globals()[sys.argv[1]]())
