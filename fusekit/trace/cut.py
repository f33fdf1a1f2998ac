"""``fk.cut``: the identity in eager; in a recording an op that forces a segment boundary."""

from __future__ import annotations

import torch
from torch.overrides import _get_current_function_mode_stack

from fusekit.kinds import a, expect
from fusekit.trace.swap import Swap

_TENSOR = a(torch.Tensor, "a tensor")
_library = torch.library.Library("fusekit", "DEF")
_library.define("cut(Tensor(a) x) -> Tensor(a)")
_library.impl("cut", lambda x: torch.ops.aten.alias.default(x), "CompositeExplicitAutograd")


def cut(t: torch.Tensor) -> torch.Tensor:
    """``t`` itself. What fusekit computes of ``t`` is in memory before anything after the cut reads it: no segment
    spans a cut."""
    expect("fk.cut", t=(t, _TENSOR))
    if any(isinstance(mode, Swap) for mode in _get_current_function_mode_stack()):
        torch.ops.fusekit.cut(t)  # its place in the program is what counts; its result is t under another name
    return t
