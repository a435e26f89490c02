"""The configuration of a proxy: rmq-proxy.json, read as RocketMQ's proxy reads it, and the command line.
RocketMQ: ProxyConfig (5.3.3 proxy/config/): names and defaults. Times in ms unless the name says otherwise, sizes in bytes.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config import ConfigError, Problem, found_memory
from ..config.keys import parse_size
from ..config.memory import BUFFERS_MAX, LEAST, share
from ..remoting.credentials import Credentials
from ..remoting.json_codec import JsonError, read_object, write_json

NO_PORT = -1
"""As remotingListenPort: 4.x clients have no port here. RocketMQ's proxy cannot be told so."""
ANY_NAME_SERVER = "127.0.0.1:9876"
"""In place of -n and NAMESRV_ADDR, where a file is judged by itself."""
MODES = ("cluster", "local")
PROVIDERS = {
    "authenticationProvider": "org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider",
    "authorizationProvider": "org.apache.rocketmq.auth.authorization.provider.DefaultAuthorizationProvider",
    "authenticationMetadataProvider": "org.apache.rocketmq.proxy.auth.ProxyAuthenticationMetadataProvider",
    "authorizationMetadataProvider": "org.apache.rocketmq.proxy.auth.ProxyAuthorizationMetadataProvider",
}
"""What is done here: users and rights are the brokers', checked as by these classes. A proxy that is told another one does not start."""
KEPT_BYTES_MAX = 256 << 20
PERIODS = frozenset({"transactionHeartbeatPeriodSecond", "renewSchedulePeriodMillis"})
"""0 would be work without a pause."""
Long = int
"""Of what is a long in RocketMQ's ProxyConfig; the other numbers are ints there."""
MOST = {"int": (1 << 31) - 1, "Long": 10**18 - 1}
"""To the second any time can be added in 64 bits."""
Size = int
"""rocketpy's own, as --memory has it."""
_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LEVEL = re.compile("([0-9]{1,9})([smhd])")
_WIRE_NAMES = {"rocketmq_cluster_name": "rocketMQClusterName"}


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """The keys that have an effect here. RocketMQ's other keys are accepted, and named once in the log."""

    namesrv_addr: str = ""
    rocketmq_cluster_name: str = "DefaultCluster"
    proxy_cluster_name: str = "DefaultCluster"
    proxy_mode: str = "cluster"
    broker_config_path: str = ""
    proxy_name: str = ""
    local_serve_addr: str = ""
    grpc_server_port: int = 8081
    remoting_listen_port: int = 8080
    remoting_access_addr: str = ""
    enable_remoting_local_proxy_grpc: bool = True
    grpc_shutdown_time_seconds: Long = 30
    grpc_max_inbound_message_size: int = 130 * 1024 * 1024
    grpc_thread_pool_queue_capacity: int = 100_000
    tls_test_mode_enable: bool = True
    tls_key_path: str = ""
    tls_cert_path: str = ""
    use_endpoint_port_from_request: bool = False
    max_message_size: int = 4 * 1024 * 1024
    enable_message_body_empty_check: bool = True
    max_user_property_size: int = 16 * 1024
    user_property_max_num: int = 128
    max_message_group_size: int = 64
    max_lite_topic_size: int = 64
    max_lite_renew_num_per_channel: int = 100
    max_sync_lite_subscription_rate: int = 5000
    max_delay_time_mills: Long = 86_400_000
    max_transaction_recovery_second: Long = 3600
    enable_topic_message_type_check: bool = True
    use_delay_level: bool = False
    message_delay_level: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    default_invisible_time_mills: Long = 60_000
    min_invisible_time_mills_for_recv: Long = 10_000
    max_invisible_time_mills: Long = 43_200_000
    grpc_client_producer_max_attempts: int = 3
    grpc_client_producer_backoff_initial_millis: Long = 10
    grpc_client_producer_backoff_max_millis: Long = 1000
    grpc_client_producer_backoff_multiplier: int = 2
    grpc_client_consumer_min_long_polling_timeout_millis: Long = 5000
    grpc_client_consumer_max_long_polling_timeout_millis: Long = 20_000
    grpc_client_consumer_long_polling_batch_size: int = 32
    grpc_client_idle_time_mills: Long = 120_000
    channel_expired_timeout: Long = 120_000
    topic_route_service_cache_refresh_seconds: int = 20
    topic_route_service_cache_max_num: int = 20_000
    transaction_heartbeat_period_second: int = 20
    transaction_data_expire_millis: Long = 30_000
    enable_proxy_auto_renew: bool = True
    max_renew_retry_times: int = 3
    renew_ahead_time_millis: Long = 10_000
    renew_max_time_millis: Long = 10_800_000
    renew_schedule_period_millis: Long = 5000
    invisible_time_millis_when_clear: Long = 1000
    metrics_exporter_type: str = "DISABLE"
    metrics_grpc_exporter_target: str = ""
    metrics_grpc_exporter_header: str = dataclasses.field(default="", repr=False)
    metric_grpc_exporter_time_out_in_mills: Long = 3000
    metric_grpc_exporter_interval_in_mills: Long = 60_000
    metric_logging_exporter_interval_in_mills: Long = 10_000
    metrics_prom_exporter_host: str = ""
    metrics_prom_exporter_port: int = 5557
    metrics_label: str = ""
    metrics_in_delta: bool = False
    authentication_enabled: bool = False
    authorization_enabled: bool = False
    authentication_whitelist: str = ""
    authorization_whitelist: str = ""
    user_cache_refresh_seconds: int = 20
    enable_acl_rpc_hook_for_cluster_mode: bool = False
    inner_client_authentication_credentials: str = dataclasses.field(default="", repr=False)
    memory: Size = dataclasses.field(default_factory=lambda: found_memory().size)

    @property
    def port_bytes_max(self) -> int:
        """How many bytes of memory the connections of one port may hold."""
        return share(self.memory, BUFFERS_MAX, 4)

    @property
    def kept_bytes_max(self) -> int:
        """How many bytes of memory may be used for each of these: what is kept of clients, told to them, passed on to brokers, inflated."""
        return share(self.memory, KEPT_BYTES_MAX, 16)

    @property
    def name_servers(self) -> list[str]:
        return [part.strip() for part in self.namesrv_addr.split(";") if part.strip()]

    @property
    def topics_max(self) -> int:
        """How many topics are remembered at once: at least the one that was just asked for, even if the key says none."""
        return max(1, self.topic_route_service_cache_max_num)

    @property
    def checks(self) -> bool:
        """Whether anybody is checked: who it is, or what it may do."""
        return self.authentication_enabled or self.authorization_enabled

    @property
    def credentials(self) -> Credentials | None:
        """The credentials that sign requests to brokers and name servers. Raises ValueError."""
        text = self.inner_client_authentication_credentials
        return Credentials.from_json(text) if self.enable_acl_rpc_hook_for_cluster_mode and text.strip() else None


def delay_levels(text: str) -> list[int]:
    """The pauses of messageDelayLevel in ms, level 1 first. Raises ValueError."""
    levels = [_LEVEL.fullmatch(each) for each in text.split()]
    found = [int(level[1]) * _UNITS_MS[level[2]] for level in levels if level is not None]
    if not found or len(found) < len(levels):
        raise ValueError("it is not such as 1s 5s 10s 30s 1m 2h")
    return found


def wire_name(attribute: str) -> str:
    """The key in RocketMQ's spelling: grpcServerPort for grpc_server_port."""
    return _WIRE_NAMES.get(attribute) or re.sub("_(.)", lambda found: found.group(1).upper(), attribute)


_FIELDS = {wire_name(field.name): field for field in dataclasses.fields(ProxySettings)}
_TRUE, _FALSE = ("true",), ("false",)


def _value(kind: str, given: Any) -> Any:
    """The value as the field's type. Raises ValueError."""
    text = str(given).strip()
    if kind == "bool":
        if isinstance(given, bool) or text.lower() in _TRUE + _FALSE:
            return text.lower() in _TRUE
        raise ValueError("true or false")
    if kind in MOST:
        least, most = -MOST[kind] - 1, MOST[kind]
        if isinstance(given, bool) or not re.fullmatch("-?[0-9]{1,19}", text) or not least <= int(text) <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return int(text)
    if kind == "Size":
        size = None if isinstance(given, bool) else parse_size(text)
        if size is None or size < LEAST:
            raise ValueError(f"bytes, or a number with k, m, g or t such as 512m, {LEAST >> 20}m or more")
        return size
    if isinstance(given, int) and not isinstance(given, bool):  # a constant of Java's, by its number
        return text
    if isinstance(given, dict):  # a text in RocketMQ's files, which holds an object
        return write_json(given).decode()
    if not isinstance(given, str):
        raise ValueError("text")
    return text


def _shown(field: dataclasses.Field[Any], value: Any) -> str:
    """A value in a form that may go to a log."""
    return repr(value) if field.repr else "the value"


def load_settings(file: Path | None, defaults: Mapping[str, Any], overrides: Mapping[str, Any]) -> tuple[ProxySettings, dict[str, Any]]:
    """(settings, keys that are not the proxy's own). The command line takes precedence over the file, the file over the environment.

    Raises one ConfigError with everything that is wrong.
    """
    given: dict[str, Any] = {}
    if file is not None:
        try:
            given = read_object(file.read_bytes())
        except (OSError, JsonError) as error:
            raise ConfigError([Problem("configFile", f"cannot be read: {error}", str(file))]) from error
        if not all(isinstance(name, str) for name in given):
            raise ConfigError([Problem("configFile", "an object or a list stands in the place of a key's name", str(file))])
    given = {**defaults, **given, **overrides}
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    others: dict[str, Any] = {}
    place = str(file or "")
    for name, value in given.items():
        if name in PROVIDERS:
            if value and value != PROVIDERS[name]:
                problems.append(Problem(name, f"there is no other than {PROVIDERS[name]}", place))
        elif name not in _FIELDS:
            others[name] = value
        else:
            field = _FIELDS[name]
            try:
                values[field.name] = _value(str(field.type), value)
            except (TypeError, ValueError) as error:  # TypeError: an object within it whose keys are no texts
                problems.append(Problem(name, f"{_shown(field, value)} is not valid: {error}", place))
            else:
                if name in PERIODS and values[field.name] < 1:
                    problems.append(Problem(name, f"{value!r} is not valid: a whole number from 1 on", place))
    settings = ProxySettings(**values)
    try:
        credentials = settings.credentials
    except ValueError as error:
        problems.append(Problem("innerClientAuthenticationCredentials", str(error), place))
    else:
        if settings.enable_acl_rpc_hook_for_cluster_mode and credentials is None:
            problems.append(Problem("enableAclRpcHookForClusterMode", "needs innerClientAuthenticationCredentials to sign with", place))
    try:
        if settings.use_delay_level:
            delay_levels(settings.message_delay_level)
    except ValueError as error:
        problems.append(Problem("messageDelayLevel", f"{settings.message_delay_level!r}: {error}", place))
    settings = dataclasses.replace(settings, proxy_mode=settings.proxy_mode.lower())
    if settings.proxy_mode not in MODES:
        problems.append(Problem("proxyMode", f"{settings.proxy_mode!r} is none: {' or '.join(MODES)}", place))
    if not problems and not settings.name_servers and settings.proxy_mode != "local":
        problems.append(Problem("namesrvAddr", "is needed (-n, or NAMESRV_ADDR in the environment)", place))
    for name, port in (("grpcServerPort", settings.grpc_server_port), ("metricsPromExporterPort", settings.metrics_prom_exporter_port)):
        if not problems and not 0 <= port <= 65535:
            problems.append(Problem(name, f"{port} is no port", place))
    if not problems and not NO_PORT <= settings.remoting_listen_port <= 65535:
        problems.append(
            Problem("remotingListenPort", f"{settings.remoting_listen_port} is no port; {NO_PORT}: none for 4.x clients", place)
        )
    if problems:
        raise ConfigError(problems)
    return settings, others
