"""Every op that is fused by its definition, by overload: reductions, norms, losses, look-ups, triangles."""

from __future__ import annotations

from collections.abc import Callable

from fusekit.passes import lookups, losses, norms, reductions, softmax, triangles
from fusekit.passes.call import Call
from fusekit.passes.lookups import Step

Decomposition = Callable[[Call], "tuple[Step, ...] | None"]

DECOMPOSITIONS: dict[str, Decomposition] = {
    **reductions.RULES,
    **softmax.RULES,
    **norms.RULES,
    **losses.RULES,
    **lookups.RULES,
    **triangles.RULES,
}
