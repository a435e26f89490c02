"""Metrics of a server under RocketMQ's names, and the ways in which they leave it: metricsExporterType."""
