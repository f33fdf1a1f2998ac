"""Right means: the same as eager. Checks against eager, and random programs to check."""

from fusekit.testing.check import check
from fusekit.testing.differential import differential

__all__ = ["check", "differential"]
