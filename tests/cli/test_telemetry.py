"""What a server tells of itself is as its settings, the environment and the command line say."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.settings import HoldfastSettings, LogSettings, TraceSettings, read_settings
from holdfast.cli.telemetry import Telemetry, TelemetryContext, set_up_telemetry
from holdfast.config import ServeOptions
from holdfast.kernel.errors import ConfigError
from holdfast.observe.metrics_observer import MetricsObserver
from holdfast.observe.redact import HIDDEN

ROOT = Path(__file__).resolve().parent.parent.parent
OPTIONS = ServeOptions(data="/nowhere")


def made(
    settings: HoldfastSettings = HoldfastSettings(),  # noqa: B008 - frozen
    options: ServeOptions = OPTIONS,
    environ: Mapping[str, str] = {},
    *,
    directory: Path = Path("/nowhere"),
    database: str = "sqlite:///chats.db",
) -> Telemetry:
    return set_up_telemetry(
        settings, options, TelemetryContext(str(directory), database, lambda: 0), environ
    )


def test_by_default_there_are_numbers_and_lines_for_people_and_nothing_else() -> None:
    told = made()
    assert isinstance(told.observer, MetricsObserver)
    assert (told.log, told.level, told.recorded) == ("text", "warning", None)


def test_the_file_says_how_it_is_logged_and_the_environment_has_the_last_word(
    tmp_path: Path,
) -> None:
    file = tmp_path / "holdfast.toml"
    file.write_text(
        'record = "r"\n[log]\nformat = "json"\nlevel = "info"\n[traces]\ncontent = true'
    )
    settings, _ = read_settings(str(file))
    assert settings.log == LogSettings(format="json", level="info")
    assert settings.traces == TraceSettings(content=True)
    told = made(settings, directory=tmp_path)
    assert (told.log, told.level, told.recorded) == ("json", "info", str(tmp_path / "r"))
    said = ServeOptions(data="/nowhere", log="text", record=str(tmp_path / "other"))
    told = made(settings, said, directory=tmp_path)
    assert (told.log, told.recorded) == ("text", str(tmp_path / "other"))


def test_a_format_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigError, match="HOLDFAST_LOG is 'xml': use text or json"):
        made(options=ServeOptions(data="/nowhere", log="xml"))


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    record = str(tmp_path / "file" / "r")
    with pytest.raises(ConfigError, match=r"cannot record in .*: use another"):
        made(options=ServeOptions(data="/nowhere", record=record))


def test_traces_without_opentelemetry_are_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigError, match=r"install holdfast\[otel\]"):
        made(options=ServeOptions(data="/nowhere", traces=True))
    made()  # who wants none needs none


def test_every_secret_that_the_process_knows_is_hidden() -> None:
    settings = HoldfastSettings(providers={"openai": {"headers": {"X-Gateway": "gate-4711"}}})
    environ = {"GROQ_API_KEY": "key-0815", "DEPLOY_TOKEN": "tok-9999", "HOME": "/home/me"}
    database = "postgresql://app:p%40ssword@db.internal/chats"
    hide = made(settings, environ=environ, database=database).redact
    for secret in ("gate-4711", "key-0815", "tok-9999", "p@ssword", "p%40ssword"):
        assert hide(f"<{secret}>") == f"<{HIDDEN}>"
    assert hide("/home/me") == "/home/me"


# --- the process ---


@contextmanager
def started(home: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    keys = ("_API_KEY", "_TOKEN", "HOLDFAST_", "OTEL_")
    environ = {k: v for k, v in os.environ.items() if not any(part in k for part in keys)}
    environ |= {"HOLDFAST_HOME": str(home), "HOLDFAST_LOG": "json", "HOLDFAST_TRACES": "1"}
    environ["PYTHONPATH"] = str(ROOT)
    home.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", *words],
        env=environ, cwd=home, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def first_words(process: subprocess.Popen[str]) -> str:
    """What it says until it is ready, each line being JSON."""
    words = ""
    assert process.stderr is not None
    while "Ctrl-C" not in words:
        words += json.loads(process.stderr.readline())["message"] + " "
    return words


def asked(port: str, token: str, path: str, body: object = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, headers)
    with urllib.request.urlopen(request, timeout=10) as response:
        return response.read()  # type: ignore[no-any-return]


def rested(port: str, token: str, chat: str) -> Any:
    for _ in range(500):
        told = json.loads(asked(port, token, f"/api/v1/chats/{chat}"))
        if told["status"] == "idle":
            return told
        time.sleep(0.02)
    raise AssertionError(f"it does not come to rest: {told}")


def test_a_served_turn_is_counted_logged_and_recorded(tmp_path: Path) -> None:
    home, records = tmp_path / "home", tmp_path / "records"
    with started(home, "serve", "--listen", "0", "--record", str(records)) as process:
        assert process.stderr is not None
        messages = first_words(process)
        token = (home / "token").read_text().strip()
        assert token not in messages
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", messages)
        assert found is not None
        port = found[1]
        body = {"prompt": f"hello, I am {token}"}
        chat = json.loads(asked(port, token, "/api/v1/chats", body))["id"]
        rested(port, token, chat)
        text = asked(port, token, "/metrics").decode()
        process.send_signal(signal.SIGTERM)
        rest = [json.loads(line) for line in process.stderr]
        assert process.wait(timeout=30) == 0
    assert 'holdfast_turns_total{reason="stop"} 1\n' in text
    assert 'holdfast_database_seconds_count{kind="commit"}' in text
    assert rest[-1]["message"].startswith("stopping")
    assert "hello" in (records / f"{chat}.jsonl").read_text()
    for record in records.iterdir():  # of its title too
        assert record.name.startswith(chat)
        assert token not in record.read_text()


def test_a_worker_tells_its_numbers_at_a_port_of_their_own(tmp_path: Path) -> None:
    with started(tmp_path / "home", "worker", "--metrics", "127.0.0.1:0") as process:
        found = re.search(r"on port (\d+), /metrics", first_words(process))
        assert found is not None
        text = asked(found[1], "", "/metrics").decode()
        assert json.loads(asked(found[1], "", "/healthz")) == {"status": "ok"}
        with pytest.raises(urllib.error.HTTPError, match="404"):
            asked(found[1], "", "/api/v1/chats")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        assert process.returncode == 0
    assert "holdfast_live_workers 1\n" in text
    assert "holdfast_stream_readers" not in text


def test_a_port_that_is_no_port_is_refused_before_anything_is_opened(tmp_path: Path) -> None:
    with started(tmp_path / "home", "worker", "--metrics", "nine") as process:
        _, told = process.communicate(timeout=30)
        assert process.returncode == 2
    assert "'nine' is not an address to listen on" in told
    assert not (tmp_path / "home" / "chats.db").exists()
