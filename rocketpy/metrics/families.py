"""The series of a server in Prometheus' families, each with the labels that all its series share. All exporters show these.

Bounds: series_max series of one metric; the log says once when there are more.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric, Sample

log = logging.getLogger(__name__)

T = TypeVar("T")
Labels = Mapping[str, str]
Row = tuple[Labels, float]
HistogramRow = tuple[Labels, Sequence[int], float]
"""Labels, how many were in each class and above the last bound, and the sum of their values."""


@dataclass(frozen=True, slots=True)
class Scrape:
    """What was read on the event loop, and what the thread of the scrape has still to read."""

    metrics: list[Metric]
    rest: Callable[[], Iterable[Metric]] = tuple


class MetricFamilies:
    """Makes metric families from rows of values."""

    def __init__(self, common: Labels, series_max: int, limited_by: str) -> None:
        """`common`: labels of every series, besides its own. limited_by: what the log says limits the number of series, series_max."""
        self._common = common
        self._limit = series_max
        self._limited_by = limited_by
        self._is_cut = False

    def gauge(self, name: str, help_text: str, rows: Iterable[Row]) -> Metric:
        return self._filled(GaugeMetricFamily, name, help_text, rows)

    def counter(self, name: str, help_text: str, rows: Iterable[Row]) -> Metric:
        """`name` is given without its _total."""
        return self._filled(CounterMetricFamily, name, help_text, rows)

    def histogram(self, name: str, help_text: str, bounds: Sequence[float], rows: Iterable[HistogramRow]) -> Metric:
        chosen, own = self._chosen(name, [(labels, (counts, total)) for labels, counts, total in rows])
        family = HistogramMetricFamily(name, help_text, labels=[*self._common, *own])
        names = [*(str(float(bound)) for bound in bounds), "+Inf"]
        for labels, (counts, total) in chosen:
            buckets = list(zip(names, map(float, itertools.accumulate(counts)), strict=True))
            family.add_metric(self._values(labels, own), buckets, total)
        return family

    def _filled(self, kind: type[GaugeMetricFamily] | type[CounterMetricFamily], name: str, help_text: str, rows: Iterable[Row]) -> Metric:
        chosen, own = self._chosen(name, list(rows))
        family = kind(name, help_text, labels=[*self._common, *own])
        sample = f"{family.name}_total" if family.type == "counter" else family.name
        common = dict(self._common)
        for labels, value in chosen:  # add_metric goes through all labels twice more, and a scrape has 100,000 series
            if not "".join(labels.values()).isascii():
                labels = {label: _text(text) for label, text in labels.items()}
            family.samples.append(Sample(sample, {**common, **labels}, value))
        return family

    def _chosen(self, name: str, rows: list[tuple[Labels, T]]) -> tuple[list[tuple[Labels, T]], list[str]]:
        if len(rows) > self._limit and not self._is_cut:
            self._is_cut = True
            log.warning("%s has %d series, %s is %d: the rest is left out", name, len(rows), self._limited_by, self._limit)
        return rows[: self._limit], list(rows[0][0]) if rows else []

    def _values(self, labels: Labels, own: list[str]) -> list[str]:
        return [*self._common.values(), *(_text(labels[label]) for label in own)]


def _text(value: str) -> str:
    """A text that can be written: names from a client's JSON may contain lone surrogates."""
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
