"""``doctor --attack IMAGE``: trying to break out of containers, in ways that are known to work."""
