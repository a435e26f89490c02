"""The name server: which brokers are there, and which topics they hold. NameServer is in service.py."""
