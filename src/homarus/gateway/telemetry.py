"""Traces of turns, model calls and tools, and figures, for a collector that speaks OTLP over HTTP. Off unless configured.

Names and attributes are those that OpenClaw documents, so that its dashboards go on. What was said, the names of
sessions and the arguments of tools never leave: counts, durations, models, tools and outcomes do.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

from homarus.config.view import Config
from homarus.core.errors import ConfigError, installing
from homarus.core.events import MessageEnded, ModelCalled, RunEnded, RunEvent, RunStarted, ToolEnded, ToolStarted
from homarus.core.messages import Assistant
from homarus.core.routes import SessionKey

_log = logging.getLogger(__name__)
EXPORT_SECONDS = 3.0
MAX_RUNS = 2_000  # runs that are followed at the same time
_TRACE = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_LOUD = "opentelemetry"


class OtelSettings(Struct, frozen=True, rename="camel"):
    """`diagnostics.otel`: where traces and figures go. What is not set here is taken from the usual OTEL_ variables."""

    enabled: bool = False
    endpoint: str = ""
    traces_endpoint: str = ""
    metrics_endpoint: str = ""
    protocol: Literal["", "http/protobuf"] = ""
    service_name: str = ""
    metric_name_prefix: str = "openclaw."
    # Text, or a reference to a secret.
    headers: dict[str, Any] = {}
    traces: bool = True
    metrics: bool = True
    sample_rate: float | None = None
    flush_interval_ms: int = 60_000


class DiagnosticsSettings(Struct, frozen=True, rename="camel"):
    enabled: bool = True
    otel: OtelSettings = OtelSettings()


class _Following(Struct):
    """A run under way: its span, the model call and the tools that are open in it."""

    span: Any
    context: Any
    model: str
    call: Any = None
    called_at: float = 0.0
    tools: dict[str, Any] = {}


def trace_of(text: str) -> tuple[int, int, int] | None:
    """Read a `traceparent`: trace, span and flags; None for one that says nothing."""
    found = _TRACE.fullmatch(text)
    if found is None or not int(found[1], 16) or not int(found[2], 16):
        return None
    return int(found[1], 16), int(found[2], 16), int(found[3], 16)


class Telemetry:
    """Follows the events of all sessions. `upstream` gives the `traceparent` that a run's request brought, if any."""

    def __init__(
        self,
        settings: OtelSettings,
        headers: Mapping[str, str],
        upstream: Callable[[str], str],
        monotonic: Callable[[], float],
    ) -> None:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

        self._upstream = upstream
        self._now = monotonic
        self._runs: OrderedDict[SessionKey, _Following] = OrderedDict()
        self._prefix = settings.metric_name_prefix
        logging.getLogger(_LOUD).setLevel(logging.ERROR)  # a collector that is away is said once, not with each try
        resource = Resource.create({"service.name": settings.service_name} if settings.service_name else {})
        if not settings.service_name and str(resource.attributes.get("service.name", "unknown_service")).startswith(
            "unknown_service"
        ):
            resource = resource.merge(Resource({"service.name": "openclaw"}))
        sampler = None if settings.sample_rate is None else ParentBased(TraceIdRatioBased(settings.sample_rate))
        self._spans = TracerProvider(resource=resource, sampler=sampler) if settings.traces else None
        if self._spans is not None:
            self._spans.add_span_processor(_span_processor(settings, headers))
        readers = [_metric_reader(settings, headers)] if settings.metrics else []
        self._figures = MeterProvider(resource=resource, metric_readers=readers)
        self._tracer = self._spans.get_tracer("homarus") if self._spans is not None else None
        self._make_instruments()

    def _make_instruments(self) -> None:
        meter, prefix = self._figures.get_meter("homarus"), self._prefix
        self._tokens = meter.create_counter(f"{prefix}tokens")
        self._cost = meter.create_counter(f"{prefix}cost.usd")
        self._attempts = meter.create_counter(f"{prefix}run.attempt")
        self._run_ms = meter.create_histogram(f"{prefix}run.duration_ms", unit="ms")
        self._call_ms = meter.create_histogram(f"{prefix}model_call.duration_ms", unit="ms")
        self._tool_ms = meter.create_histogram(f"{prefix}tool.execution.duration_ms", unit="ms")
        self._usage = meter.create_histogram("gen_ai.client.token.usage", unit="{token}")
        self._operation = meter.create_histogram("gen_ai.client.operation.duration", unit="s")

    def take(self, session: SessionKey, event: RunEvent) -> None:
        """Follow one event. Never raises."""
        try:
            self._follow(session, event)
        except Exception as problem:  # noqa: BLE001 - whatever goes wrong here is nobody's turn
            _log.error("an event could not be told to the collector: %r", problem)

    def _follow(self, session: SessionKey, event: RunEvent) -> None:
        if isinstance(event, RunStarted):
            self._begin(session, event)
            return
        run = self._runs.get(session)
        if run is None:
            return
        match event:
            case ModelCalled():
                self._end_call(run, None, failed=True)
                run.model, run.called_at = event.model, self._now()
                run.call = self._span("openclaw.model.call", run.context, _about(event.model) | _chat(event.model))
                self._attempts.add(1, {"openclaw.attempt": str(min(event.attempt, 10))})
            case MessageEnded():
                self._end_call(run, event.message, failed=bool(event.message.error))
            case ToolStarted():
                facts = {"gen_ai.tool.name": event.name, "openclaw.toolName": event.name}
                named = facts | {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": event.call_id}
                run.tools[event.call_id] = self._span("openclaw.tool.execution", run.context, named)
            case ToolEnded():
                name, failed = event.result.tool_name, event.result.is_error
                self._close(run.tools.pop(event.result.call_id, None), "tool_error" if failed else "")
                facts = {"gen_ai.tool.name": name, "openclaw.toolName": name}
                self._tool_ms.record(
                    event.seconds * 1000, facts | ({"openclaw.errorCategory": "tool"} if failed else {})
                )
            case RunEnded():
                self._end(session, run, event)

    def _begin(self, session: SessionKey, event: RunStarted) -> None:
        while len(self._runs) >= MAX_RUNS:
            _, oldest = self._runs.popitem(last=False)
            self._close(oldest.span, "lost")
        context = _parent(self._upstream(event.run_id))
        facts = _about(event.model) | {"openclaw.agent": session.agent_id}
        span = self._span("openclaw.run", context, facts)
        self._runs[session] = _Following(span, _inside(span), event.model, tools={})

    def _end_call(self, run: _Following, answer: Assistant | None, *, failed: bool) -> None:
        if not run.called_at:
            return
        seconds, about = max(0.0, self._now() - run.called_at), _about(run.model)
        kind = {"error.type": "model_error"} if failed else {}
        self._call_ms.record(seconds * 1000, about | ({"openclaw.errorCategory": "model"} if failed else {}))
        self._operation.record(seconds, _chat(run.model) | kind)
        if answer is not None:
            self._count(run, answer, about)
        self._close(run.call, "model_error" if failed else "")
        run.call, run.called_at = None, 0.0

    def _count(self, run: _Following, answer: Assistant, about: dict[str, str]) -> None:
        usage = answer.usage
        for name, count in (("input", usage.input), ("output", usage.output), ("cache_read", usage.cache_read)):
            if count:
                self._tokens.add(count, about | {"openclaw.token": name})
        for name, count in (("input", usage.prompt), ("output", usage.output)):
            if count:
                self._usage.record(count, _chat(run.model) | {"gen_ai.token.type": name})
                if run.call is not None:
                    run.call.set_attribute(f"gen_ai.usage.{name}_tokens", count)
        if usage.cost.total:
            self._cost.add(usage.cost.total, about)

    def _end(self, session: SessionKey, run: _Following, event: RunEnded) -> None:
        self._end_call(run, None, failed=True)
        for span in run.tools.values():
            self._close(span, "not_ended")
        about = _about(run.model)
        self._run_ms.record(event.seconds * 1000, about)
        if run.span is not None:
            run.span.set_attribute("openclaw.outcome", event.status)
        self._close(run.span, "" if event.status == "ok" else event.status)
        del self._runs[session]

    def _span(self, name: str, context: Any, facts: dict[str, str]) -> Any:
        return None if self._tracer is None else self._tracer.start_span(name, context=context, attributes=facts)

    def _close(self, span: Any, error: str) -> None:
        if span is None:
            return
        if error:
            from opentelemetry.trace import Status, StatusCode

            span.set_attribute("error.type", error)
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    async def stop(self) -> None:
        """Send what waits; a collector that does not answer is not waited for long."""

        def flush() -> None:
            if self._spans is not None:
                self._spans.shutdown()
            self._figures.shutdown(timeout_millis=5_000)

        try:
            async with asyncio.timeout(8):
                await asyncio.to_thread(flush)
        except TimeoutError:
            _log.warning("the collector did not take the last figures in time")


def telemetry_for(
    config: Config, env: Mapping[str, str], upstream: Callable[[str], str], monotonic: Callable[[], float]
) -> Telemetry | None:
    """Return what a home's settings ask for; None where they ask for nothing. Raises ConfigError, which says what is missing."""
    settings = config.block("diagnostics", DiagnosticsSettings)
    if not (settings.enabled and settings.otel.enabled) or env.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    try:
        import opentelemetry.exporter.otlp.proto.http.trace_exporter  # noqa: F401 - whether it is there
    except ImportError:
        cure = f"{installing('homarus[otel]')}, or turn it off"
        raise ConfigError("diagnostics.otel is on and its libraries are not installed", cure=cure) from None
    rate = settings.otel.sample_rate
    if rate is not None and not 0 <= rate <= 1:
        raise ConfigError(f"diagnostics.otel.sampleRate is {rate}", cure="a number from 0 to 1")
    headers = {name: config.resolve(value) for name, value in settings.otel.headers.items()}
    return Telemetry(settings.otel, headers, upstream, monotonic)


def _address(settings: OtelSettings, own: str, signal: str) -> str | None:
    """Return where a signal goes; None leaves it to the OTEL_ variables and their defaults."""
    if own or not settings.endpoint:
        return own or None
    base = re.sub(r"/v1/(?:traces|metrics|logs)/?$", "", settings.endpoint.rstrip("/"))
    return f"{base}/v1/{signal}"


def _span_processor(settings: OtelSettings, headers: Mapping[str, str]) -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    where = _address(settings, settings.traces_endpoint, "traces")
    return BatchSpanProcessor(OTLPSpanExporter(endpoint=where, headers=dict(headers) or None, timeout=_patience()))


def _metric_reader(settings: OtelSettings, headers: Mapping[str, str]) -> Any:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    where = _address(settings, settings.metrics_endpoint, "metrics")
    exporter = OTLPMetricExporter(endpoint=where, headers=dict(headers) or None, timeout=_patience())
    return PeriodicExportingMetricReader(exporter, export_interval_millis=max(1_000, settings.flush_interval_ms))


def _patience() -> float | None:
    """Return how long one export may take with all its tries; a gateway that ends waits for the last one."""
    return None if "OTEL_EXPORTER_OTLP_TIMEOUT" in os.environ else EXPORT_SECONDS


def _about(model: str) -> dict[str, str]:
    provider, _, name = model.partition("/")
    return {"openclaw.provider": provider or "unknown", "openclaw.model": name or provider or "unknown"}


def _chat(model: str) -> dict[str, str]:
    provider, _, name = model.partition("/")
    return {"gen_ai.operation.name": "chat", "gen_ai.provider.name": provider, "gen_ai.request.model": name}


def _parent(text: str) -> Any:
    found = trace_of(text)
    if found is None:
        return None
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    trace, span, flags = found
    return set_span_in_context(
        NonRecordingSpan(SpanContext(trace, span, is_remote=True, trace_flags=TraceFlags(flags)))
    )


def _inside(span: Any) -> Any:
    if span is None:
        return None
    from opentelemetry.trace import set_span_in_context

    return set_span_in_context(span)
