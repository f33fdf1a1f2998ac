"""What the lowering refuses."""

from fusekit.errors import FusekitError


class CannotLower(FusekitError):
    """No kernel for these ops: ``what`` fills the reason "cannot-lower" of the segmenter."""


class NoVectors(CannotLower):
    """These ops cannot be whole vectors: the loop of the lanes is unrolled instead."""
