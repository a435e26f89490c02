"""Metric families as text, in both of Prometheus' formats, and who gets which.

prometheus_client looks at the characters of each sample's names anew, which takes most of the time of a scrape of 100,000 series. Names are
valid here (families.py, settings.py), samples have a name, labels and a value. What else somebody may ask for is left to prometheus_client.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder, gzip_accepted
from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication

GZIP_LEVEL: Final = 6
"""19 MB of 100,000 series: 72 ms and 714 KB; with 9 193 ms and 699 KB."""
_OPEN: Final = "application/openmetrics-text"
_AS_THEY_ARE: Final = ("", "underscores", "allow-utf-8")
"""Ways of writing names by which valid ones stay as they are."""


def open_text(metrics: Iterable[Metric]) -> bytes:
    """In the OpenMetrics format, which Prometheus asks for first."""
    return "".join([*_lines(metrics, of_counter=""), "# EOF\n"]).encode()


def plain_text(metrics: Iterable[Metric]) -> bytes:
    """In the older format, for whoever names none."""
    return "".join(_lines(metrics, of_counter="_total")).encode()


def metrics_app(registry: CollectorRegistry) -> WSGIApplication:
    """Answers with all metrics, whatever the path, as make_wsgi_app."""
    others: WSGIApplication = make_wsgi_app(registry)

    def answer(environ: dict[str, object], start_response: StartResponse) -> Iterable[bytes]:
        is_plain = environ["REQUEST_METHOD"] == "GET" and "name[]" not in parse_qs(str(environ.get("QUERY_STRING", "")))
        if not is_plain or environ["PATH_INFO"] == "/favicon.ico":
            return others(environ, start_response)
        _, content_type = choose_encoder(str(environ.get("HTTP_ACCEPT", "")))
        encoder = _encoder(content_type)
        if encoder is None:
            return others(environ, start_response)
        text, headers = encoder(registry.collect()), [("Content-Type", content_type)]
        if gzip_accepted(str(environ.get("HTTP_ACCEPT_ENCODING", ""))):
            text = gzip.compress(text, GZIP_LEVEL)
            headers.append(("Content-Encoding", "gzip"))
        start_response("200 OK", headers)
        return [text]

    return answer


def _encoder(content_type: str) -> Callable[[Iterable[Metric]], bytes] | None:
    kind, *parameters = [part.strip() for part in content_type.split(";")]
    escaping = next((part.partition("=")[2] for part in parameters if part.startswith("escaping=")), "")
    if escaping not in _AS_THEY_ARE:
        return None
    return open_text if kind == _OPEN else plain_text


def _lines(metrics: Iterable[Metric], of_counter: str) -> Iterator[str]:
    """of_counter: what the names of counters end with in the lines that describe them."""
    values: dict[float, str] = {}
    for metric in metrics:
        name = metric.name + (of_counter if metric.type == "counter" else "")
        about = _escaped(metric.documentation) if not of_counter else metric.documentation.replace("\\", r"\\").replace("\n", r"\n")
        yield f"# HELP {name} {about}\n# TYPE {name} {metric.type}\n"
        forms: dict[tuple[str, tuple[str, ...]], tuple[list[str], str]] = {}
        for sample in metric.samples:
            labels, value = sample.labels, sample.value
            kind = sample.name, tuple(labels)
            known = forms.get(kind)
            if known is None:
                known = forms[kind] = _form(*kind)
            text = values.get(value)
            if text is None:
                text = values[value] = f" {floatToGoString(value)}\n"  # type: ignore[no-untyped-call]
            yield known[1] % _label_values(labels, known[0]) + text


def _form(name: str, labels: tuple[str, ...]) -> tuple[list[str], str]:
    """The labels in the order of a line, and the line but for its values."""
    names = sorted(labels)
    return names, name + ("{" + ",".join(f'{label}="%s"' for label in names) + "}" if names else "")


def _label_values(labels: Mapping[str, str], names: list[str]) -> tuple[str, ...]:
    chosen = [labels[name] for name in names]
    joined = "".join(chosen)
    if '"' in joined or "\\" in joined or "\n" in joined:
        chosen = [_escaped(value) for value in chosen]
    return tuple(chosen)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
