"""The proxy: it serves 5.x clients, which speak gRPC (apache.rocketmq.v2), from name servers and brokers, which speak remoting."""
