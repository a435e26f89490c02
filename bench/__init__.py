"""Measurements: pytest-benchmark suites (make bench) and the comparison with RocketMQ itself (make bench-peer)."""
