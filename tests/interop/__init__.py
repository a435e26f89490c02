"""Real, unmodified clients and tools of RocketMQ as judges of rocketpy. `INTEROP_AGAINST=peer` runs them against RocketMQ itself."""
