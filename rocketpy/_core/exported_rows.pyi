"""Stub of rocketpy._core.exported_rows: what the wrappers share to read native tables; nothing of it is for Python."""
