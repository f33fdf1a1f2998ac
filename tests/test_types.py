"""What a type checker sees of ``fk.jit``: the function's own parameters and result, and what the callable tells."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from fusekit.pipeline import Changes, Options

PROGRAM = """
import torch

import fusekit as fk


@fk.jit
def f(x: torch.Tensor, n: int = 2) -> torch.Tensor:
    return x * n


@fk.jit(strict=True)
def g(x: torch.Tensor) -> tuple[torch.Tensor, int]:
    return x, 1


reveal_type(f(torch.ones(2), 3))  # "Tensor"
reveal_type(g(torch.ones(2)))  # "tuple[Tensor, int]"
reveal_type(f.cache_info().hits)  # "int"
reveal_type(f.last_run)  # "LastRun | None"
reveal_type(f.explorations())  # "tuple[Exploration, ...]"
f(1, 2, 3)  # error
f.nonsense()  # error
g("a")  # error
fk.jit(f, nonsense=1)  # error
fk.jit(f, backend=3)  # error
"""


def test_keywords_are_the_options() -> None:
    assert set(Changes.__annotations__) == set(Options.__dataclass_fields__)


@pytest.mark.skipif(find_spec("pyright") is None, reason="not installed: pyright")
def test_wrong_calls_are_seen(tmp_path: Path, root: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "pyrightconfig.json").write_text(f'{{"extraPaths": ["{root.as_posix()}"]}}')
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", str(tmp_path)]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout.splitlines()
    for number, row in enumerate(PROGRAM.splitlines(), 1):
        said = "\n".join(line for line in told if f"program.py:{number}:" in line)
        wanted = row.partition("  # ")[2]
        assert wanted in said and ("error" in said) == (wanted == "error"), (row, told)
