"""Store directories seen from outside: what lies in them, whether it is whole, and how to mend it."""
