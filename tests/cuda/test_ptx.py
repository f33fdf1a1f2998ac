"""PTX without a device: what it says, how it is kept, and what is said where something is missing."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fusekit.errors import BackendUnavailable
from fusekit.run import cache
from fusekit.run.cuda import Ptx, assemble, check, clear_cache, compile_ptx, device_count, ptx, require_device

PRODUCT = """
def product(x, y):
    i = thread_x()
    store_f32(y, i, load_f32(x, i) * load_f32(y, i) + np.float32(1.5))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, on disk and in memory."""
    monkeypatch.setenv("FUSEKIT_CACHE", str(tmp_path))
    monkeypatch.setattr(ptx, "_COMPILED", {})
    return ptx.cache_folder()


def make(contract: bool = False, cc: tuple[int, int] = (9, 0)) -> Ptx:
    return compile_ptx(PRODUCT, "product", ("address", "address"), cc, threads=128, contract=contract)


def forget() -> None:
    ptx._COMPILED.clear()


def test_a_product_and_a_sum_are_two_roundings_unless_asked_for():
    made = make().text
    assert "mul.rn.f32" in made and "add.rn.f32" in made and "fma" not in made
    assert "fma.rn.f32" in make(contract=True).text
    assert ".f64" not in made and ".maxntid 128, 1, 1" in made


def test_mul_rn_rounds_where_contraction_is_allowed():
    source = PRODUCT.replace("load_f32(x, i) * load_f32(y, i)", "mul_rn(load_f32(x, i), load_f32(y, i))")
    made = compile_ptx(source, "product", ("address", "address"), (9, 0), threads=128, contract=True)
    assert "fma" not in made.text


def test_division_and_roots_are_exact_and_subnormals_stay():
    source = "def quotient(x):\n    store_f32(x, 0, np.sqrt(load_f32(x, 1) / load_f32(x, 2)))\n"
    made = compile_ptx(source, "quotient", ("address",), (9, 0), threads=32).text
    assert "div.rn.f32" in made and "sqrt.rn.f32" in made and "ftz" not in made


def test_the_text_does_not_depend_on_what_was_compiled_before(folder: Path):
    first = make().text
    make(contract=True)
    forget()
    cache_file(folder, first).unlink()
    assert make().text == first and ".visible .entry product(" in first


def cache_file(folder: Path, body: str) -> Path:
    return next(path for path in folder.glob("*.ptx") if body in path.read_text())


def test_the_disk_serves_another_process_without_numba_cuda(folder: Path):
    wanted = make().text
    code = f"""
import sys
sys.modules["numba.cuda"] = None
from fusekit.run.cuda import compile_ptx
print(compile_ptx({PRODUCT!r}, "product", ("address", "address"), (9, 0), threads=128).text, end="")
"""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout == wanted


@pytest.mark.parametrize("damage", [b"", b"// fusekit 00\n", b"\xff\xfe"], ids=("empty", "headless", "binary"))
def test_a_damaged_file_is_made_again(folder: Path, damage: bytes):
    wanted = make()
    (file,) = folder.glob("*.ptx")
    whole = file.read_bytes()
    for wrong in (damage, whole[:-40], whole.replace(b"1069547520", b"0"), whole.replace(b"add", b"sub")):
        file.write_bytes(wrong)
        forget()
        assert make() == wanted and file.read_bytes() == whole


@pytest.mark.parametrize("step", ["_compile", "replace"])
def test_an_interrupt_leaves_nothing_behind(folder: Path, step: str, monkeypatch: pytest.MonkeyPatch):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ptx if step == "_compile" else cache.os, step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            make()
    assert not folder.exists() or not list(folder.iterdir())
    assert ".visible .entry product(" in make().text


def test_a_home_that_cannot_be_written_compiles_every_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("FUSEKIT_CACHE", str(file))
    monkeypatch.setattr(ptx, "_COMPILED", {})
    assert make().entry == "product"


def test_clearing_forgets_memory_and_disk(folder: Path):
    make()
    clear_cache()
    assert not folder.exists() and not ptx._COMPILED


def test_numpy_is_left_as_it_was():
    before = "row_stack" in vars(np)
    make()
    assert ("row_stack" in vars(np)) == before


def test_an_old_device_is_refused_by_name():
    with pytest.raises(BackendUnavailable, match=r"compute capability 7\.5"):
        make(cc=(7, 5))


def test_a_missing_assembler_is_named(monkeypatch: pytest.MonkeyPatch):
    made = make()
    monkeypatch.setattr(check, "_places", lambda: iter(()))
    monkeypatch.setattr(check.shutil, "which", lambda name: None)
    check.ptxas.cache_clear()
    with pytest.raises(BackendUnavailable, match="nvidia-cuda-nvcc"):
        assemble(made)
    check.ptxas.cache_clear()


def test_a_missing_compiler_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "numba.cuda", None)
    monkeypatch.delitem(sys.modules, "numba.cuda.compiler", raising=False)
    with pytest.raises(BackendUnavailable, match="pip install numba-cuda"):
        make()


@pytest.mark.skipif(device_count() > 0, reason="there is a device")
def test_a_missing_device_is_named():
    with pytest.raises(BackendUnavailable, match="no CUDA device"):
        require_device()


def test_what_ptxas_refuses_is_an_error():
    broken = Ptx("broken", ".version 9.0\n.target sm_90\n.address_size 64\nnonsense", (), (9, 0), 32)
    with pytest.raises(RuntimeError, match="ptxas refuses broken"):
        assemble(broken)


def test_local_memory_is_seen():
    """A tuple indexed by a number that is known at run time only."""
    text = ".visible .entry k()\nld.local.u32 \t%r1, [%rd1];\nst.global.v2.f32 \t[%rd2], {%f1, %f2};"
    found = check.accesses(text)
    assert found == {("ld", "local", 4): 1, ("st", "global", 8): 1}


def test_importing_needs_no_numba_cuda():
    code = "import sys, fusekit, fusekit.run.cuda; sys.exit('numba.cuda' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=Path(__file__).parents[2]).returncode == 0
