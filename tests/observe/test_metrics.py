"""Metrics hold what was added, and are exposed as Prometheus reads them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.observe.metrics import MAX_SERIES, OTHER_LABEL, MetricRegistry

LINE = re.compile(r'^[a-z_]+(\{[a-z]+="([^"\\]|\\.)*"(,[a-z]+="([^"\\]|\\.)*")*\})? [0-9.e+-]+$')


def test_a_counter_adds_up_by_its_labels() -> None:
    meters = MetricRegistry()
    counter = meters.counter("calls_total", "Calls.", "tool", "outcome")
    counter.add("read", "ok")
    counter.add("read", "ok", by=2)
    counter.add("read", "failed")
    assert meters.text() == (
        "# HELP calls_total Calls.\n"
        "# TYPE calls_total counter\n"
        'calls_total{tool="read",outcome="ok"} 3\n'
        'calls_total{tool="read",outcome="failed"} 1\n'
    )


def test_a_counter_without_labels_is_there_before_anything_was_counted() -> None:
    meters = MetricRegistry()
    meters.counter("claims_total", "Claims.")
    assert "\nclaims_total 0\n" in meters.text()


def test_a_histogram_counts_what_is_at_most_each_bound() -> None:
    meters = MetricRegistry()
    histogram = meters.histogram("seconds", "Time.", bounds=(0.5, 1.0))
    for value in (0.25, 0.5, 0.75, 4):
        histogram.take(value)
    assert meters.text().splitlines()[2:] == [
        'seconds_bucket{le="0.5"} 2',
        'seconds_bucket{le="1.0"} 3',
        'seconds_bucket{le="+Inf"} 4',
        "seconds_sum 5.5",
        "seconds_count 4",
    ]


def test_a_gauge_may_be_read_when_somebody_asks() -> None:
    meters, readers = MetricRegistry(), [1, 2]
    meters.gauge("readers", "Readers.", lambda: len(readers))
    readers.append(3)
    assert "\nreaders 3\n" in meters.text()


def test_a_label_that_somebody_makes_up_does_not_break_the_text() -> None:
    meters = MetricRegistry()
    counter = meters.counter("calls_total", "Calls.", "tool")
    counter.add('a"b\\c\nd')
    *_, line = meters.text().splitlines()
    assert LINE.match(line)
    assert line == r'calls_total{tool="a\"b\\c\nd"} 1'


def test_labels_without_end_do_not_fill_memory_and_are_counted_all_the_same() -> None:
    meters = MetricRegistry()
    counter = meters.counter("calls_total", "Calls.", "tool")
    histogram = meters.histogram("seconds", "Time.", "tool")
    for number in range(2 * MAX_SERIES):
        counter.add(str(number))
        histogram.take(1.0, str(number))
    assert len(counter.values) == len(histogram.series) == MAX_SERIES + 1
    assert counter.values[OTHER_LABEL,] == sum(histogram.series[OTHER_LABEL,].counts) == MAX_SERIES


def test_two_meters_of_one_name_are_refused() -> None:
    meters = MetricRegistry()
    meters.counter("a_total", "A.")
    with pytest.raises(ValueError, match="a_total is already"):
        meters.gauge("a_total", "A.")


NO_NUMBERS = {"holdfast_changed", "holdfast_claimable", "holdfast_driven"}
"""Names of other things: channels of PostgreSQL, a variable."""


def test_every_number_is_in_the_docs_and_every_number_of_the_docs_is_there() -> None:
    root = Path(__file__).resolve().parents[2]
    code = "".join(file.read_text("utf-8") for file in (root / "holdfast").rglob("*.py"))
    made = set(re.findall(r'"(holdfast_[a-z_]+)"', code)) - NO_NUMBERS
    text = (root / "docs" / "operations.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(holdfast_[a-z_]+)` \|", text, re.MULTILINE)) == made
