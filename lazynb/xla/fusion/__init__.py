"""Clusters, the boundaries between them, and why XLA did not fuse across one."""
