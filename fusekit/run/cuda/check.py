"""What ptxas makes of PTX: registers, spills, stack, shared memory; and the accesses that the text asks for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fusekit.errors import BackendUnavailable
from fusekit.run.cuda.ptx import Ptx

_ACCESS = re.compile(r"\b(ld|st)\.(global|shared|local)(?:\.(?!v\d)\w+)*?(?:\.v(\d))?\.[a-z](\d+)\s")


@dataclass(frozen=True, slots=True)
class Assembly:
    """Per thread: ``registers``; ``stack``, ``spill_stores``, ``spill_loads`` in bytes. Per block: ``shared`` bytes.

    ``accesses`` counts instructions of the PTX by what, where and how many bytes: ("ld", "global", 16).
    """

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int
    accesses: Counter[tuple[str, str, int]]

    @property
    def uses_local(self) -> bool:
        """Does anything live in local memory, which is as slow as global?"""
        return bool(self.stack or self.spill_stores or self.spill_loads) or any(
            place == "local" for _, place, _ in self.accesses
        )


def assemble(ptx: Ptx) -> Assembly:
    """Runs ptxas. Raises BackendUnavailable without it, and RuntimeError with its words where it refuses the PTX."""
    major, minor = ptx.cc
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.ptx"
        file.write_text(ptx.text)
        command = [ptxas(), "-v", f"-arch=sm_{major}{minor}", "-O3", "-o", str(file.with_suffix(".cubin")), str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    report = done.stdout + done.stderr
    if done.returncode:
        raise RuntimeError(f"ptxas refuses {ptx.entry}: {report.strip()}")
    return Assembly(
        _number(report, r"Used (\d+) registers"),
        _number(report, r"(\d+) bytes stack frame"),
        _number(report, r"(\d+) bytes spill stores"),
        _number(report, r"(\d+) bytes spill loads"),
        _number(report, r"(\d+) bytes smem"),
        accesses(ptx.text),
    )


def accesses(text: str) -> Counter[tuple[str, str, int]]:
    """Loads and stores by (ld or st, memory, bytes of one access)."""
    found = _ACCESS.finditer(text)
    return Counter((m[1], m[2], int(m[3] or 1) * int(m[4]) // 8) for m in found)


@cache
def ptxas() -> str:
    """The assembler: of the nvcc wheel, of CUDA_HOME, or on PATH."""
    for path in _places():
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    on_path = shutil.which("ptxas")
    if on_path is None:
        raise BackendUnavailable("ptxas is missing", None, "python -m pip install 'nvidia-cuda-nvcc==13.0.*'")
    return on_path


def _places() -> Iterator[Path]:
    yield from sorted((Path(sysconfig.get_path("purelib")) / "nvidia").glob("*/bin/ptxas"))
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            yield Path(os.environ[name]) / "bin" / "ptxas"


def _number(report: str, pattern: str) -> int:
    found = re.search(pattern, report)
    return int(found[1]) if found else 0
