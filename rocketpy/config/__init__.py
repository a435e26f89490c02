"""Configuration: RocketMQ's keys with their defaults and units, checked, and rocketpy's own beside them.

`config = load_config("broker", "conf/broker.conf", {"namesrvAddr": "127.0.0.1:9876"})`, then `config.integer("listenPort")`.
"""

from .addresses import join_address, local_address, reach_warning, registered_host
from .keys import Key, Value, home_directory
from .loader import TABLES, Config, ConfigError, Problem, Role, Updated, load_config
from .memory import found_memory, memory_of
from .properties import file_bytes, format_properties, properties_text, read_properties
from .stored import StoredConfig

__all__ = [
    "TABLES",
    "Config",
    "ConfigError",
    "Key",
    "Problem",
    "Role",
    "StoredConfig",
    "Updated",
    "Value",
    "file_bytes",
    "format_properties",
    "found_memory",
    "home_directory",
    "join_address",
    "load_config",
    "local_address",
    "memory_of",
    "properties_text",
    "reach_warning",
    "read_properties",
    "registered_host",
]
