"""The program of the page about observability sends spans and metrics to an OTLP endpoint."""

from __future__ import annotations

import gzip
import http.server
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = re.compile(r'^```python title="observed.py"\n(.*?)^```$', re.MULTILINE | re.DOTALL)


class Collector:
    """What an OTLP endpoint has received."""

    def __init__(self) -> None:
        self.headers: list[str | None] = []
        self.spans: list[str] = []
        self.metrics: set[str] = set()
        self.port = 0

    def take(self, path: str, headers: Any, body: bytes) -> None:
        self.headers.append(headers["X-Write-Token"])
        if headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        if path == "/v1/traces":
            traces = ExportTraceServiceRequest.FromString(body)
            scopes = [scope for one in traces.resource_spans for scope in one.scope_spans]
            self.spans += [span.name for scope in scopes for span in scope.spans]
        else:
            assert path == "/v1/metrics"
            metrics = ExportMetricsServiceRequest.FromString(body)
            all_scopes = [scope for one in metrics.resource_metrics for scope in one.scope_metrics]
            self.metrics |= {metric.name for scope in all_scopes for metric in scope.metrics}


@contextmanager
def collector() -> Iterator[Collector]:
    received = Collector()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.take(self.path, self.headers, body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    received.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_program_of_the_page_sends_spans_and_metrics_with_the_headers_of_the_environment() -> (
    None
):
    (program,) = PROGRAM.findall((ROOT / "docs" / "observability.md").read_text("utf-8"))
    with collector() as received:
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={
                **os.environ,
                "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{received.port}",
                "OTEL_EXPORTER_OTLP_HEADERS": "X-Write-Token=key-1",
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert received.spans == ["chat demo", "invoke_agent agent"]
    assert {"gen_ai.client.operation.duration", "gen_ai.invoke_agent.duration"} <= received.metrics
    assert set(received.headers) == {"key-1"}
