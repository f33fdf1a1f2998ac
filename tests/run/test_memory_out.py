"""Memory that runs out is eager's RuntimeError, and the arguments are as they were: in a process with a limit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHILD = """
import resource, sys, torch
import fusekit as fk

PROGRAMS = {
    "snapshot": (lambda a: a.copy_(a.flip(0).softmax(1)), (4096, 8192)),
    "parts": (lambda a: (a.add_(1), a.sum(0))[1], (1 << 21, 16)),
}
fn, shape = PROGRAMS[sys.argv[1]]
a = torch.rand(shape)
f = fk.jit(fn)
x = fk.explore(fn, a)
room = max(kernel.room for kernel in x.kernels)
print("room", room)
f(a.clone())
before = a.clone()
with open("/proc/self/statm") as statm:
    used = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + room // 2, -1))
try:
    f(a)
except RuntimeError as error:
    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
    print("raised", error, torch.equal(a, before))
f(a)
fn(before)
print("right", torch.allclose(a, before))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks the system how much memory is used")
def test_a_snapshot_without_memory(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, "snapshot"],
        capture_output=True,
        text=True,
        check=False,
        env={"FUSEKIT_CACHE": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2]), "MALLOC_ARENA_MAX": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "can't allocate memory" in done.stdout and done.stdout.count("True") == 2, done.stdout
