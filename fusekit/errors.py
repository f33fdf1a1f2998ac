"""What fusekit raises: each error says what is wrong, where (the user's line or a node) and how to mend it.

Eager's own errors are never wrapped: a program that eager refuses raises eager's exception type.
"""

from fusekit.escape import line


class FusekitError(RuntimeError):
    """``what`` went wrong, ``where`` (a source line, a node, an argument), the ``fix``; the last two may be missing."""

    def __init__(self, what: str, where: object = None, fix: str | None = None):
        self.what, self.where, self.fix = what, where, fix
        place = f" at {where}" if where else ""
        mend = f"; {fix}" if fix else ""
        super().__init__(line(f"{what}{place}{mend}"))


class UnsupportedError(FusekitError):
    """Eager would run this program; fusekit does not."""


class InvalidGraph(FusekitError):
    """A graph breaks a named invariant of its stage: a bug of the pass that made it."""


class IllegalTransform(FusekitError):
    """A schedule, or an edit of one, that a segment cannot be lowered with."""


class TextSyntaxError(FusekitError):
    """Text that is no fusekit IR; ``where`` is the line."""


class BackendUnavailable(FusekitError):
    """What a backend needs (a device, a compiler, a layout engine) is missing on this machine."""


class CannotLower(FusekitError):
    """No kernel for these ops: ``what`` fills the reason "cannot-lower" of the segmenter."""
