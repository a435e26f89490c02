"""Cython wrappers over csrc/: one module per room, one thin class per C object, no logic."""
