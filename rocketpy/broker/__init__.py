"""The broker's control plane: the tables of topics, groups, clients and offsets, and the requests that native code does not answer."""
