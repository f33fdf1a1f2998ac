"""What the lowering refuses."""

from fusekit.errors import FusekitError


class CannotLower(FusekitError):
    """No kernel for these ops: ``what`` fills the reason "cannot-lower" of the segmenter."""
