"""The broker's control plane: what is true about topics, groups, clients and offsets, and the requests that are not hot."""
