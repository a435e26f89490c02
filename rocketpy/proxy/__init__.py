"""The proxy: clients of 5.x, which speak gRPC (apache.rocketmq.v2), before name servers and brokers, which speak remoting."""
