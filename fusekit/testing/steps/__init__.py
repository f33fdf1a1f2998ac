"""One random line of a program: a view, an in-place op, a pure op, a reduction, a look-up, a library call.

``exact`` programs look at bits, compare and cast floats to integers, and have no op whose last bits may differ; the
others have those ops and look at none of this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from fusekit.testing.steps.folds import library, reduction
from fusekit.testing.steps.lines import Lines, Space
from fusekit.testing.steps.moves import look_up, moving
from fusekit.testing.steps.numbered import numbered_place, numbered_value, numbered_view, numbered_write
from fusekit.testing.steps.values import cast, pure
from fusekit.testing.steps.views import as_strided, bits, metadata, view
from fusekit.testing.steps.writes import accident, foreach, in_place, out, scatter, set_item

__all__ = ["KINDS", "NUMBERED", "WEIGHTS", "Lines", "Space", "write_line"]

KINDS: Mapping[str, Callable[[Lines, str, torch.Tensor], str | None]] = {
    "view": view,
    "in-place": in_place,
    "pure": pure,
    "set item": set_item,
    "moving": moving,
    "reduction": reduction,
    "cast": cast,
    "look-up": look_up,
    "as_strided": as_strided,
    "bits": bits,
    "metadata": metadata,
    "out=": out,
    "foreach": foreach,
    "scatter": scatter,
    "library": library,
    "accident": accident,
    "numbered view": numbered_view,
    "numbered place": numbered_place,
    "numbered value": numbered_value,
    "numbered write": numbered_write,
}
WEIGHTS: Mapping[str, int] = {
    "view": 20, "in-place": 22, "pure": 14, "set item": 8, "moving": 7, "reduction": 5, "cast": 4, "look-up": 3,
    "as_strided": 4, "bits": 4, "metadata": 3, "out=": 4, "foreach": 3, "scatter": 3, "library": 1, "accident": 5,
}  # fmt: skip
NUMBERED: Mapping[str, int] = {"numbered view": 3, "numbered write": 4, "numbered value": 4, "numbered place": 4}


def write_line(lines: Lines) -> tuple[str, str] | None:
    """(kind, text), or None where the dice found nothing that fits."""
    choose = lines.choose
    weights = NUMBERED if lines.numbered and choose.chance(70) else WEIGHTS
    kind = choose.pick([name for name, weight in weights.items() for _ in range(weight)])
    name, t = lines.tensor()
    text = KINDS[kind](lines, name, t)
    return None if text is None else (kind, text)
