"""Master and slave: which way the commit log flows, and what operators see of it."""
