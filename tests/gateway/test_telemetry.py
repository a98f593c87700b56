"""Traces and figures reach a collector that speaks OTLP over HTTP; nothing that was said does, and nothing at all unless asked."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.served import Wire, served
from tests.scenarios.home import House
from tests.scenarios.script import Line

from homarus.gateway.telemetry import OtelSettings, _address, trace_of

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra homarus[otel] is not installed")
MAIN = "agent:main:main"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Collector:
    """Takes what the standard exporters send, and keeps it decoded."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.metrics: dict[str, Any] = {}
        self.resources: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.raw = b""
        self.status = 200
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    data = gzip.decompress(data)
                collector.take(self.path, data, {key.lower(): value for key, value in self.headers.items()})
                self.send_response(collector.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, path: str, data: bytes, headers: dict[str, str]) -> None:
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        self.raw += data
        self.headers.append(headers)
        if path == "/v1/traces":
            for each in ExportTraceServiceRequest.FromString(data).resource_spans:
                self.resources.append({pair.key: pair.value.string_value for pair in each.resource.attributes})
                self.spans += [span for scope in each.scope_spans for span in scope.spans]
        elif path == "/v1/metrics":
            for each in ExportMetricsServiceRequest.FromString(data).resource_metrics:
                self.metrics |= {metric.name: metric for scope in each.scope_metrics for metric in scope.metrics}


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    yield found
    found.server.shutdown()
    found.server.server_close()


def config(url: str, **more: Any) -> dict[str, Any]:
    return {"diagnostics": {"otel": {"enabled": True, "endpoint": url, "headers": {"x-key": "k1"}, **more}}}


async def ask(client: Wire, text: str, ident: str, trace: str = "") -> None:
    frame = {"sessionKey": MAIN, "message": text, "idempotencyKey": ident}
    request = {"type": "req", "id": ident, "method": "chat.send", "params": frame, "traceparent": trace}
    await client.raw.send(json.dumps(request))
    assert (await client.response(ident))["ok"]
    await client.event("chat", runId=ident, state="final")


async def test_a_turn_becomes_a_trace_and_figures(tmp_path: Path, collector: Collector) -> None:
    lines = Line("I look.", calls=(("session_status", {"note": "a secret argument"}),)), Line("a secret answer")
    house = House(tmp_path, *lines, config=config(collector.url, serviceName="my-home"))
    async with served(house) as home, home.client() as client:
        await ask(client, "a secret question", "r1", TRACE)
        await ask(client, "another", "r2")
    by_name: dict[str, list[Any]] = {}
    for span in collector.spans:
        by_name.setdefault(span.name, []).append(span)
    assert {name: len(found) for name, found in by_name.items()} == {
        "openclaw.run": 2,
        "openclaw.model.call": 3,
        "openclaw.tool.execution": 1,
    }
    first, second = by_name["openclaw.run"]
    assert first.trace_id.hex() == TRACE.split("-")[1]  # it goes on where the client's trace was
    assert first.parent_span_id.hex() == TRACE.split("-")[2]
    assert second.trace_id != first.trace_id
    [tool] = by_name["openclaw.tool.execution"]
    assert (tool.trace_id, tool.parent_span_id) == (first.trace_id, first.span_id)
    facts = {pair.key: pair.value for pair in by_name["openclaw.model.call"][0].attributes}
    assert (facts["gen_ai.request.model"].string_value, facts["gen_ai.usage.output_tokens"].int_value) == ("model", 10)
    assert collector.resources[0]["service.name"] == "my-home"
    assert all(headers["x-key"] == "k1" for headers in collector.headers)
    assert {
        "openclaw.tokens",
        "openclaw.run.duration_ms",
        "openclaw.tool.execution.duration_ms",
        "gen_ai.client.token.usage",
    } <= set(collector.metrics)
    tokens = {
        pair.value.string_value: point.as_int
        for point in collector.metrics["openclaw.tokens"].sum.data_points
        for pair in point.attributes
        if pair.key == "openclaw.token"
    }
    assert tokens == {"input": 300, "output": 30}
    for word in (b"secret", b"agent:main", b"another"):
        assert word not in collector.raw


async def test_signals_are_chosen_and_names_have_the_prefix_that_was_asked_for(
    tmp_path: Path, collector: Collector
) -> None:
    house = House(tmp_path, config=config(collector.url, traces=False, metricNamePrefix="acme."))
    async with served(house) as home, home.client() as client:
        await ask(client, "hello", "r1")
    assert collector.spans == []
    assert "acme.tokens" in collector.metrics
    assert "gen_ai.client.token.usage" in collector.metrics


async def test_without_the_word_nobody_is_told(tmp_path: Path, collector: Collector) -> None:
    off = {"diagnostics": {"enabled": False, **config(collector.url)["diagnostics"]}}
    for found in ({"diagnostics": {"otel": {"endpoint": collector.url}}}, off):
        folder = tmp_path / str(len(found["diagnostics"]))
        folder.mkdir()
        async with served(House(folder, config=found)) as home, home.client() as client:
            await ask(client, "hello", "r1")
    assert collector.raw == b""


@pytest.mark.parametrize("fault", ["away", "angry", "rate", "missing secret"])
async def test_a_collector_that_fails_fails_alone(tmp_path: Path, collector: Collector, fault: str) -> None:
    url = "http://127.0.0.1:9" if fault == "away" else collector.url
    collector.status = 400
    more: dict[str, Any] = {"rate": {"sampleRate": 7}, "missing secret": {"headers": {"x": "${NO_SUCH_VARIABLE}"}}}.get(
        fault, {}
    )
    house = House(tmp_path, config=config(url, **more))
    async with served(house) as home, home.client() as client:
        await ask(client, "hello", "r1")
    assert house.model.prompts


@given(st.text(max_size=80))
def test_a_trace_is_whole_or_none(text: str) -> None:
    assert trace_of(text) is None


def test_what_says_nothing_is_no_trace() -> None:
    assert trace_of(TRACE) is not None
    for bad in (TRACE.upper(), TRACE[:-1], f"{TRACE}-x", f"00-{'0' * 32}-{'1' * 16}-01", f"ff{TRACE[2:]}", ""):
        assert trace_of(bad) is None


def test_addresses_are_bases_or_whole() -> None:
    for base in ("http://c:4318", "http://c:4318/", "http://c:4318/v1/traces", "http://c:4318/v1/logs/"):
        settings = OtelSettings(endpoint=base)
        assert _address(settings, "", "metrics") == "http://c:4318/v1/metrics"
    assert _address(OtelSettings(endpoint="http://c"), "http://d/x", "traces") == "http://d/x"
    assert _address(OtelSettings(), "", "traces") is None
