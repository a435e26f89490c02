"""Stub of rocketpy._core.exported_rows: how the wrappers read native tables. It has nothing for Python code."""
