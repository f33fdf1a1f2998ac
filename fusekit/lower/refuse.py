"""What the lowering refuses."""

from fusekit.errors import CannotLower


class NoVectors(CannotLower):
    """These ops cannot be whole vectors: the loop of the lanes is unrolled instead."""


__all__ = ["CannotLower", "NoVectors"]
