"""Every name that a printed CUDA kernel may call, compiled. Importing this imports ``numba.cuda``.

:mod:`fusekit.run.cuda.standins` has the same names as plain Python.
"""

from __future__ import annotations

from typing import Any

from fusekit.run.cuda import arithmetic, lanes, libdevice, memory, threads

NAMES: dict[str, Any] = (
    memory.NAMES | arithmetic.NAMES | libdevice.NAMES | threads.NAMES | {"each_lane": lanes.each_lane}
)
globals().update(NAMES)  # so that an exported kernel can import them
