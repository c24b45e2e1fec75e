"""Runs and prints the sections about durability. Floor and ours take turns in each."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeAlias

from bench.durable_disk import Disk

Run: TypeAlias = Callable[..., list[dict[str, Any]]]
"""Runs a program, given its path and its environment; returns the rows that it prints."""
Row: TypeAlias = dict[str, Any]

HERE: Final = Path(__file__).resolve().parent
ROUNDS: Final = 5
LONG_ROUNDS: Final = 3
CHATS: Final = (1, 50)
GOALS: Final = {
    ("SQLite", 1): 0.6,
    ("SQLite", 50): 2.0,
    ("PostgreSQL", 1): 0.8,
    ("PostgreSQL", 50): 2.0,
}
"""Goals for the steps per second, as a multiple of the floor's."""


def ratios(floor: Iterable[float], ours: Iterable[float]) -> str:
    """The median of the ratios of each round, with the smallest and the largest."""
    each = [b / a for a, b in zip(floor, ours, strict=True)]
    return f"{statistics.median(each):6.2f} ({min(each):.2f}-{max(each):.2f})"


def bench_steps(run: Run, disk: Disk) -> None:
    print("\nsteps: durable steps per second; a step commits an answer, then a tool result\n")
    print(
        f"{'':22}{'floor':>9}{'holdfast':>10}{'x floor':>20}{'goal':>6}"
        f"{'1-stmt floor':>15}{'x 1-stmt floor':>20}{'CPU, us':>9}{'floor':>7}"
    )
    for store in disk.stores:
        taken: dict[tuple[str, int], list[Row]] = {}
        for _ in range(ROUNDS):
            for program in ("durable_floor.py", "durable_holdfast.py"):
                for row in run(HERE / program, BENCH_TARGET=disk.empty(store)):
                    taken.setdefault((row["who"], row["chats"]), []).append(row)
        for chats in CHATS:
            print(steps_line(store, chats, taken))


def steps_line(store: str, chats: int, taken: dict[tuple[str, int], list[Row]]) -> str:
    def figures(who: str, name: str = "per_second") -> list[float]:
        return [row[name] for row in taken.get((who, chats), ())]

    floor, ours, other = figures("floor"), figures("holdfast"), figures("one_statement")
    label = f"{store}, {chats} {'chat' if chats == 1 else 'chats'}"
    line = f"{label:22}{statistics.median(floor):9,.0f}{statistics.median(ours):10,.0f}"
    line += f"{ratios(floor, ours):>20}{GOALS[store, chats]:6.1f}"
    if other:
        line += f"{statistics.median(other):15,.0f}{ratios(other, ours):>20}"
    else:
        line += " " * 35
    cpu = statistics.median(figures("holdfast", "cpu"))
    return line + f"{cpu:9.0f}{statistics.median(figures('floor', 'cpu')):7.0f}"


def bench_busy(run: Run, disk: Disk) -> None:
    print("\nbusy: commits of a chat while another task blocks the loop in slices; milliseconds\n")
    print(
        f"{'':12}{'slice, us':>10}{'commits':>9}{'median':>9}{'p95':>9}{'max':>9}"
        f"{'max beat delay':>16}"
    )
    for store in disk.stores:
        for row in run(HERE / "durable_busy.py", BENCH_TARGET=disk.empty(store)):
            print(
                f"{store:12}{row['slice']:10}{row['commits']:9}{row['median']:9.1f}"
                f"{row['p95']:9.1f}{row['most']:9.1f}{row['late']:16.1f}"
            )
    print("goal: p95 at most 20 ms, and no heartbeat more than 1,000 ms late")


def bench_kept(run: Run, disk: Disk) -> None:
    print(
        "\nkept: bytes per step, stored in the database and written, in chats of 50 and 800 steps\n"
    )
    print(
        f"{'':12}{'':10}{'50 steps':>10}{'800':>10}{'800 / 50':>10}{'x floor':>10}{'written':>10}"
    )
    for store in disk.stores:
        kept: dict[str, float] = {}
        for who in ("floor", "holdfast"):
            fifty, many = run(
                HERE / "durable_kept.py",
                BENCH_WHO=who,
                BENCH_TARGET=disk.empty(store),
                BENCH_SIZES="16x50,1x800",
            )
            kept[who] = many["kept"]
            print(
                f"{store:12}{who:10}{fifty['kept']:10.0f}{many['kept']:10.0f}"
                f"{many['kept'] / fifty['kept']:10.2f}{many['kept'] / kept['floor']:10.2f}"
                f"{min(fifty['written'], many['written']):10.0f}"
            )
    print("goal: at most 3 times the floor, and the same at 800 steps as at 50")


def bench_length(run: Run, disk: Disk) -> None:
    print("\nlength: time of a step, by the number of messages in the chat\n")
    print(
        f"{'':12}{'messages':>10}{'step, ms':>10}{'x 10 messages':>20}{'CPU, us':>9}"
        f"{'x 10 messages':>20}{'first step, ms':>22}"
    )
    for store in disk.stores:
        taken: dict[int, list[Row]] = {}
        for _ in range(LONG_ROUNDS):
            for row in run(HERE / "durable_length.py", BENCH_TARGET=disk.empty(store)):
                taken.setdefault(row["messages"], []).append(row)
        for messages in taken:
            print(length_line(store, messages, taken))
    print("goal: with 10,000 messages at most 1.3 times as long as with 10")


def length_line(store: str, messages: int, taken: dict[int, list[Row]]) -> str:
    shortest = taken[min(taken)]
    line = f"{store:12}{messages:10,}"
    for name, width, digits in (("step", 10, 2), ("cpu", 9, 0)):
        figures = [row[name] for row in taken[messages]]
        compared = ratios([row[name] for row in shortest], figures)
        line += f"{statistics.median(figures):{width}.{digits}f}{compared:>20}"
    return line + f"{statistics.median(row['first'] for row in taken[messages]):22.0f}"


TAKEOVERS: Final = (
    ("PostgreSQL", "term", "another worker, after SIGTERM", 2.0),
    ("PostgreSQL", "kill", "another worker, after kill -9", 20.0),
    ("SQLite", "restart", "a new process, after kill -9", None),
)


def bench_takeover(run: Run, disk: Disk) -> None:
    print("\ntakeover: seconds from the end of a worker to the next committed step\n")
    for store, how, label, goal in TAKEOVERS:
        if store not in disk.stores:
            continue
        (row,) = run(HERE / "durable_takeover.py", BENCH_TARGET=disk.empty(store), BENCH_HOW=how)
        note = "" if goal is None else f"   goal: at most {goal:g}"
        if "ready" in row:
            note = f"   {row['ready']:.2f} of it after the new process was ready"
        print(f"{store:12}{label:32}{row['seconds']:8.2f}{note}")
