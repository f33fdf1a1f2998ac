"""Running on CUDA: source text to PTX to raw launches. Importing this needs neither a GPU nor ``numba.cuda``.

``compile_ptx`` needs NVVM and no driver; ``assemble`` needs ptxas; ``load`` and what follows need a device.
"""

from fusekit.run.cuda.check import Assembly, assemble
from fusekit.run.cuda.device import Device, current_stream, describe, device_count, measured_bandwidth, require_device
from fusekit.run.cuda.module import Function, Launch, load
from fusekit.run.cuda.ptx import Ptx, clear_cache, compile_ptx
from fusekit.run.cuda.scratch import counters, partials

__all__ = [
    "Assembly",
    "Device",
    "Function",
    "Launch",
    "Ptx",
    "assemble",
    "clear_cache",
    "compile_ptx",
    "counters",
    "current_stream",
    "describe",
    "device_count",
    "load",
    "measured_bandwidth",
    "partials",
    "require_device",
]
