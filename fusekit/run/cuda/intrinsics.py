"""Every name that a printed CUDA kernel may call, compiled. Importing this imports ``numba.cuda``.

:mod:`fusekit.run.cuda.standins` has the same names as plain Python.
"""

from __future__ import annotations

from typing import Any

from fusekit.run.cuda import arithmetic, memory, threads

NAMES: dict[str, Any] = memory.NAMES | arithmetic.NAMES | threads.NAMES
globals().update(NAMES)  # so that an exported kernel can import them
