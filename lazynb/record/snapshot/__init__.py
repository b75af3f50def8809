"""A pending trace as plain data, for whoever draws or explains it."""
