"""Measure Holdfast, next to a floor: the least code that does the same work by hand.

make bench                          all sections
make bench PEERS="agno langgraph"   also measure these frameworks in the section loop (PEERS=all)
python -m bench --only steps busy   only these sections
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.durable_disk import Disk, disk
from bench.durable_report import (
    bench_busy,
    bench_kept,
    bench_length,
    bench_steps,
    bench_takeover,
)
from bench.measure import APIS
from tests.browser import chromium

HERE: Final = Path(__file__).resolve().parent
PEERS: Final = {
    "agno": ["agno", "openai"],
    "langgraph": ["langgraph", "langchain"],
    "pydantic_ai": ["pydantic-ai-slim"],
    "openai_agents": ["openai-agents"],
}
ROUNDS: Final = 5
"""Rounds in which floor and ours take turns: a machine has slow and fast minutes."""
STARTS: Final = 15
"""Processes started for one figure."""


def python_of(peer: str) -> Path:
    """The peer's interpreter. Its environment is created on first use."""
    home = HERE / ".peers" / peer
    python = home / "bin" / "python"
    if not python.exists():
        print(f"installing {peer} …", file=sys.stderr)
        uv = shutil.which("uv") or str(HERE.parent / ".tools" / "bin" / "uv")
        subprocess.run([uv, "venv", "-q", str(home)], check=True)
        install = [uv, "pip", "install", "-q", "--compile-bytecode", "-p", str(python)]
        subprocess.run([*install, *PEERS[peer]], check=True)
    return python


def run(python: Path | str, program: Path, **more: str) -> list[dict[str, Any]]:
    """Run a program with additional environment variables; returns the rows that it prints."""
    environment = {
        **os.environ,
        **more,
        "PYTHONPATH": str(HERE.parent),
        "PYTHONWARNINGS": "ignore",
    }
    done = subprocess.run(
        [python, program], env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def bench_loop(peers: list[str]) -> None:
    print("\nloop: CPU time per step (one streamed answer and one tool call), in microseconds\n")
    rows: dict[str, dict[int, list[float]]] = {}

    def take(python: Path | str, program: Path) -> None:
        for row in run(python, program):
            rows.setdefault(row["who"], {}).setdefault(row["size"], []).append(row["median"])

    for _ in range(ROUNDS):
        take(sys.executable, HERE / "loop_floor.py")
        take(sys.executable, HERE / "loop_holdfast.py")
    for peer in peers:
        take(python_of(peer), HERE / "peers" / f"loop_{peer}.py")

    floor = statistics.median(rows["floor"][200])
    print(f"{'':16}{'50 steps':>10}{'200':>10}{'800':>10}{'x floor':>10}{'800 / 50':>10}")
    for who, sizes in rows.items():
        at = {size: statistics.median(figures) for size, figures in sizes.items()}
        growth = statistics.median(b / a for a, b in zip(sizes[50], sizes[800], strict=True))
        print(
            f"{who:16}{at[50]:10.1f}{at[200]:10.1f}{at[800]:10.1f}"
            f"{at[200] / floor:10.1f}{growth:10.2f}"
        )


@contextmanager
def wire_server() -> Iterator[str]:
    """The base URL of a fake model server, in a process of its own."""
    server = subprocess.Popen(
        [sys.executable, HERE / "wire_server.py"], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
    finally:
        server.terminate()
        server.wait()


def bench_wire() -> None:
    print("\nwire: CPU time per streamed chunk (burst of 4,000), in microseconds\n")
    figures: dict[tuple[str, str], list[float]] = {}
    with wire_server() as base_url:
        for _ in range(ROUNDS):
            for who in ("floor", "holdfast", "sdks"):
                for row in run(sys.executable, HERE / f"wire_{who}.py", BENCH_URL=base_url):
                    figures.setdefault((row["api"], row["who"]), []).append(row["median"])
    print(f"{'':16}{'floor':>10}{'holdfast':>10}{'x floor':>10}{'SDK':>10}{'x floor':>10}")
    for api in APIS:
        floor = figures[api, "floor"]
        line = f"{api:16}{statistics.median(floor):10.2f}"
        for who in ("holdfast", "sdk"):
            taken = figures[api, who]
            ratio = statistics.median(b / a for a, b in zip(floor, taken, strict=True))
            line += f"{statistics.median(taken):10.2f}{ratio:10.2f}"
        print(line)


def bench_streams() -> None:
    print("\nstreams: memory and CPU time per answer, with many answers at once in one process\n")
    with wire_server() as base_url:
        for api in APIS:  # each in a new process: freed memory would be reused
            (row,) = run(sys.executable, HERE / "streams.py", BENCH_URL=base_url, BENCH_API=api)
            print(
                f"{row['api']:16}{row['streams']:8} streams{row['kilobytes']:8.0f} KB"
                f"{row['milliseconds']:8.2f} ms CPU"
            )


def bench_fanout() -> None:
    print("\nfanout: 500 readers, 50 events/s each; server CPU time per event, and its delay\n")
    rows: dict[str, list[dict[str, Any]]] = {}
    for _ in range(3):
        for who in ("floor", "one", "many", "relay", "relay_many"):
            rows.setdefault(who, []).extend(
                run(sys.executable, HERE / "fanout.py", BENCH_FANOUT=who)
            )
    labels = {
        "floor": "floor",
        "one": "one chat",
        "many": "500 chats",
        "relay": "one, relayed",  # CPU time of the replica that runs the chat
        "relay_many": "500, relayed",
    }
    for who, label in labels.items():
        taken = [row["median"] for row in rows[who]]
        pairs = zip(rows["floor"], rows[who], strict=True)
        ratio = statistics.median(ours["median"] / floor["median"] for floor, ours in pairs)
        p50, p99 = (statistics.median(row[name] for row in rows[who]) for name in ("p50", "p99"))
        print(
            f"{label:16}{statistics.median(taken):8.1f} µs{ratio:8.2f} x floor"
            f"{p50:10.0f} ms median{p99:8.0f} ms p99"
        )
    (row,) = run(sys.executable, HERE / "fanout.py", BENCH_FANOUT="stalled")
    print(
        f"{'20 stalled':16}{row['megabytes']:8.1f} MB more memory"
        f"{(row['slower'] - 1) * 100:8.1f} % longer turn"
    )


def bench_page() -> None:
    print("\npage: main-thread time per frame, with 5,000 messages and a 60 kB answer; size\n")
    if chromium.find() is None:
        print(f"page skipped: {chromium.MISSING}", file=sys.stderr)
        return
    *speeds, size = run(sys.executable, HERE / "page.py")
    for frames in speeds:
        times = frames["p95"] / frames["floor"]
        goal = f"   goal: p95 at most {frames['goal']:.0f} ms" if "goal" in frames else ""
        print(
            f"{frames['characters_per_second']:8.0f} chars/s{'':4}{frames['p50']:8.1f} ms median"
            f"{frames['p95']:8.1f} ms p95{frames['max']:8.1f} ms max"
            f"{frames['floor']:8.1f} ms p95 of the floor ({times:.1f} x){goal}"
        )
    print(
        f"{'start':16}{size['kilobytes']:8.0f} kB compressed   goal: at most {size['goal']:.0f} kB"
    )


def start(statement: str) -> tuple[float, float]:
    """Wall time in milliseconds and memory in megabytes of a process that runs one statement."""
    probe = f"{statement}\nprint(int(open('/proc/self/statm').read().split()[1]) * 4096 / 1e6)"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    times, memory = [], 0.0
    for attempt in range(STARTS + 1):
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", probe],
            env=environment,
            cwd=HERE.parent,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        if attempt:  # the first start compiles
            times.append((time.perf_counter() - began) * 1e3)
        memory = float(done.stdout)
    return statistics.median(times), memory


STARTED: Final = (
    (
        ("floor", "import asyncio, json, sqlite3"),
        ("import holdfast", "import holdfast"),
        ("holdfast.Agent", "from holdfast import Agent, tool"),
    ),
    (
        ("aiohttp, msgspec", "import aiohttp, msgspec"),
        ("Anthropic", "from holdfast.models import Anthropic"),
        ("OpenAIChat", "from holdfast.models import OpenAIChat"),
        ("OpenAIResponses", "from holdfast.models import OpenAIResponses"),
        ("Google", "from holdfast.models import Google"),
    ),
)
"""Imports to measure. In each group the first one is the floor of the others."""


def bench_start() -> None:
    print("\nstart: wall time and memory of a process that only imports\n")
    taken, memory = start("pass")
    print(f"{'python':18}{taken:8.0f} ms{memory:8.1f} MB")
    for group in STARTED:
        floor = None
        for label, statement in group:
            taken, memory = start(statement)
            floor = floor or taken
            print(f"{label:18}{taken:8.0f} ms{memory:8.1f} MB{taken / floor:10.2f} x floor")


def first_output(*arguments: str) -> float:
    """Milliseconds until the program writes the first byte to either stream."""
    with tempfile.TemporaryDirectory() as directory:
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *arguments],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert process.stdout is not None
        assert process.stdout.read(1)
        taken = (time.perf_counter() - began) * 1e3
        process.communicate()
    return taken


COMMANDS: Final = (
    ("--version",),
    ("run", "--model", "demo", "--quiet", "say hello"),
    ("run", "--model", "demo", "--quiet", "list"),
)


def bench_command_line() -> None:
    print("\ncommands: wall time from the start of a process to its first output\n")
    for command in COMMANDS:
        first_output(*command)  # compiles
        taken = [first_output(*command) for _ in range(STARTS)]
        shown = " ".join(command)
        print(
            f"holdfast {shown:50}{statistics.median(taken):8.0f} ms median{min(taken):8.0f} ms min"
        )


DURABLE: Final[Mapping[str, Callable[..., None]]] = {
    "steps": bench_steps,
    "busy": bench_busy,
    "kept": bench_kept,
    "length": bench_length,
    "takeover": bench_takeover,
}
"""Sections that need a disk, with the function that measures each."""
SECTIONS: Final = ("loop", "wire", "streams", "fanout", "page", "start", "commands", *DURABLE)


def bench_in_memory(sections: list[str], peers: list[str]) -> None:
    if "loop" in sections:
        bench_loop(peers)
    if "wire" in sections:
        bench_wire()
    if "streams" in sections:
        bench_streams()
    if "fanout" in sections:
        bench_fanout()
    if "page" in sections:
        bench_page()
    if "start" in sections:
        bench_start()
    if "commands" in sections:
        bench_command_line()


def bench_on_disk(sections: list[str], place: Disk) -> None:
    place.report()
    for section, bench in DURABLE.items():
        if section in sections:
            bench(partial(run, sys.executable), place)


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--peers",
        nargs="*",
        default=[],
        choices=[*PEERS, "all"],
        metavar="NAME",
        help=f"also measure {', '.join(PEERS)}, or all of them",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=list(SECTIONS),
        choices=SECTIONS,
        metavar="SECTION",
        help=f"measure only these sections: {', '.join(SECTIONS)}",
    )
    parser.add_argument(
        "--directory",
        type=Path,
        metavar="DIR",
        help="directory for the databases, on the disk to measure; default: bench/.disk",
    )
    options = parser.parse_args()
    peers = list(PEERS) if "all" in options.peers else options.peers
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    bench_in_memory(options.only, peers)
    if not DURABLE.keys().isdisjoint(options.only):
        with disk(options.directory) as place:
            bench_on_disk(options.only, place)


if __name__ == "__main__":
    main()
