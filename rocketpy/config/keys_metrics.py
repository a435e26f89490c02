"""Keys of the ways in which metrics leave a broker or a controller. RocketMQ: BrokerConfig, ControllerConfig (5.3.3 common/)."""

from __future__ import annotations

from .keys import Key, choice, long, number, switch, text

EXPORTER_KEYS: tuple[Key, ...] = (
    choice(
        "metricsExporterType",
        "DISABLE",
        "DISABLE OTLP_GRPC PROM LOG 0 1 2 3",
        "How metrics leave: pushed to a collector, served to Prometheus, or logged.",
    ),
    text(
        "metricsGrpcExporterTarget",
        "",
        "OTLP: host:port of the collector, in TLS unless http:// stands before it. Empty: no metrics are pushed.",
    ),
    text("metricsGrpcExporterHeader", "", "OTLP: headers of each push, key:value,key:value.", secret=True),
    long("metricGrpcExporterTimeOutInMills", 3000, "OTLP: how long a push may take; 0: as long as it likes.", "ms"),
    long("metricGrpcExporterIntervalInMills", 60000, "OTLP: pause between pushes, 100 at least.", "ms", least=1),
    long(
        "metricLoggingExporterIntervalInMills",
        10000,
        "LOG: pause between two logs of all metrics, 100 at least.",
        "ms",
        least=1,
    ),
    number("metricsPromExporterPort", 5557, "PROM: the port; 0: any free one.", most=65535),
    text("metricsPromExporterHost", "", "PROM: the address; empty: bindAddress.", pattern="host"),
    text("metricsLabel", "", "Labels added to every metric: key:value,key:value."),
    switch("metricsInDelta", False, "OTLP and LOG: what was counted since the last time instead of since the start."),
)
