"""Metrics of a process, and their Prometheus text format.

They are updated and read on the event loop, without locks. An update is a dictionary lookup, cheap
enough for every step.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias, TypeVar

MAX_SERIES: Final = 500
"""Maximum number of series of one metric, so that invented label values cannot fill memory."""
OTHER_LABEL: Final = "other"
"""Label value of all series beyond the maximum."""
METRICS_MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Media type of the Prometheus text format."""
DATABASE_BUCKETS: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
)  # fmt: skip
"""Histogram bounds in seconds for databases."""
SECONDS_BUCKETS: Final = (
    0.01,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    120.0,
    300.0,
    600.0,
)
"""Histogram bounds in seconds for models and tools."""

MetricLabels: TypeAlias = tuple[str, ...]
"""Names or values of the labels of a metric, in order."""


class Metric:
    """Base of metrics: a name, its HELP text, and the names of its labels."""

    kind = "untyped"

    def __init__(self, name: str, meaning: str, labels: MetricLabels = ()) -> None:
        self.name = name
        self.meaning = meaning
        self.labels = labels

    def lines(self) -> Iterator[str]:
        raise NotImplementedError

    def text(self) -> str:
        head = f"# HELP {self.name} {self.meaning}\n# TYPE {self.name} {self.kind}\n"
        return head + "".join(f"{line}\n" for line in self.lines())

    def _of(self, values: MetricLabels, *more: tuple[str, str]) -> str:
        pairs = [*zip(self.labels, values, strict=True), *more]
        inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs)
        return f"{{{inside}}}" if inside else ""


class Counter(Metric):
    """A value that only grows, per combination of labels."""

    kind = "counter"

    def __init__(self, name: str, meaning: str, labels: MetricLabels = ()) -> None:
        super().__init__(name, meaning, labels)
        self.values: dict[MetricLabels, float] = {} if labels else {(): 0}

    def add(self, *labels: str, by: float = 1) -> None:
        try:
            self.values[labels] += by
        except KeyError:
            if len(self.values) >= MAX_SERIES:
                labels = (OTHER_LABEL,) * len(self.labels)
            self.values[labels] = self.values.get(labels, 0) + by

    def lines(self) -> Iterator[str]:
        for labels, value in self.values.items():
            yield f"{self.name}{self._of(labels)} {value:.15g}"


class Gauge(Metric):
    """A current value: counted up and down, or computed when it is read."""

    kind = "gauge"

    def __init__(self, name: str, meaning: str, read: Callable[[], float] | None = None) -> None:
        super().__init__(name, meaning)
        self.value = 0.0
        self._read = read

    def lines(self) -> Iterator[str]:
        value = self.value if self._read is None else self._read()
        yield f"{self.name} {value:.15g}"


class _Series:
    __slots__ = ("counts", "sum")

    def __init__(self, bounds: int) -> None:
        self.counts = [0] * (bounds + 1)
        self.sum = 0.0


class Histogram(Metric):
    """A distribution of values in buckets, per combination of labels."""

    kind = "histogram"

    def __init__(
        self,
        name: str,
        meaning: str,
        labels: MetricLabels = (),
        bounds: Sequence[float] = SECONDS_BUCKETS,
    ) -> None:
        super().__init__(name, meaning, labels)
        self.bounds = tuple(bounds)
        self.series: dict[MetricLabels, _Series] = {}

    def take(self, value: float, *labels: str) -> None:
        series = self.series.get(labels)
        if series is None:
            series = self._new(labels)
        series.counts[bisect_left(self.bounds, value)] += 1
        series.sum += value

    def _new(self, labels: MetricLabels) -> _Series:
        if len(self.series) >= MAX_SERIES:
            labels = (OTHER_LABEL,) * len(self.labels)
        return self.series.setdefault(labels, _Series(len(self.bounds)))

    def lines(self) -> Iterator[str]:
        for labels, series in self.series.items():
            total = 0
            for bound, count in zip((*self.bounds, "+Inf"), series.counts, strict=True):
                total += count
                yield f"{self.name}_bucket{self._of(labels, ('le', str(bound)))} {total}"
            yield f"{self.name}_sum{self._of(labels)} {series.sum:.15g}"
            yield f"{self.name}_count{self._of(labels)} {total}"


M = TypeVar("M", bound=Metric)


class MetricRegistry:
    """The registry: all metrics of a process."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}

    def counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return self._add(Counter(name, meaning, labels))

    def gauge(self, name: str, meaning: str, read: Callable[[], float] | None = None) -> Gauge:
        return self._add(Gauge(name, meaning, read))

    def histogram(
        self, name: str, meaning: str, *labels: str, bounds: Sequence[float] = SECONDS_BUCKETS
    ) -> Histogram:
        return self._add(Histogram(name, meaning, labels, bounds))

    def _add(self, metric: M) -> M:
        if metric.name in self._metrics:
            raise ValueError(f"the metric {metric.name} is already registered")
        self._metrics[metric.name] = metric
        return metric

    def __iter__(self) -> Iterator[Metric]:
        return iter(self._metrics.values())

    def text(self) -> str:
        return "".join(metric.text() for metric in self)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
