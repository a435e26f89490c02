"""How the topics, groups and clients of a soak are called."""

from __future__ import annotations

TEMPORARY_TOPIC = "soak-passing-topic-"
TEMPORARY_GROUP = "soak-passing-group-"
VISITOR = "soak-visitor-"
NAMED = {"topic": TEMPORARY_TOPIC, "group": TEMPORARY_GROUP, "client": VISITOR}
"""What must be nowhere when the load has ended, by what it is."""

LASTING_TOPICS = tuple(f"soak-{number}" for number in range(4))
QUEUES = 4
LOAD_TOPIC = "soak-load"
PROBE_TOPIC = "soak-probe"
EMPTY_QUEUE = 3
"""Of the probe's topic: nothing is sent to it, whoever pulls there waits."""
LASTING_GROUPS = tuple(f"soak-reader-{number}" for number in range(4))
TAGS = ("A", "B", "C", "D")
TEMPORARY_TOPICS, TEMPORARY_GROUPS = 24, 12
"""How many names are used in turn: the native tables keep an entry of every name they ever had (csrc/broker/name_table.h)."""
