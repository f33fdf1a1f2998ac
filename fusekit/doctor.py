"""``fusekit doctor``: what this machine has, what that means for fusekit, and the one command that mends each lack."""

import importlib
import importlib.metadata
import os
import platform
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from fusekit.progress import progress

PYTHON_FLOOR = (3, 11)

# distribution, least release, what fusekit needs it for
PACKAGES = (
    ("torch", "2.11", "the programs themselves, and what they are checked against"),
    ("numba", "0.61", "CPU kernels"),
    ("numba-cuda", "0.22", "CUDA kernels"),
    ("numpy", "1.26", "the simulator"),
    ("networkx", "3.4", "the graph"),
    ("islpy", "2024.2", "exact races"),
    ("graphviz", "0.20", "DOT text"),
    ("pygraphviz", "2.0", "pictures"),
    ("ipywidgets", "8.1", "the notebook stepper"),
    ("anywidget", "0.9", "the notebook stepper"),
    ("pygments", "2.17", "coloured kernel sources"),
    ("tqdm", "4.66", "progress"),
)

# wheel, file (under nvidia/ of the packages, or under CUDA_HOME), what it does
CUDA_PARTS = (
    ("nvidia-nvvm==13.0.*", "libnvvm", "makes PTX of CUDA kernels"),
    ("nvidia-cuda-nvrtc==13.0.*", "libnvrtc", "links half-precision arithmetic"),
    ("nvidia-cuda-nvcc==13.0.*", "ptxas", "assembles kernels without a GPU, for tests"),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """``state`` of ``subject`` in words; ``mend`` is the command that gives what is missing, None where all is well."""

    subject: str
    state: str
    mend: str | None = None
    is_optional: bool = False

    @property
    def mark(self) -> str:
        if self.mend is None:
            return "ok"
        return "optional" if self.is_optional else "missing"


def main() -> int:
    """Prints every finding; 0 whatever they are, since a lack is an answer and no failure."""
    print(f"fusekit doctor: Python {platform.python_version()} on {platform.platform()}")
    findings = [finding for probe in progress(PROBES, "looking", "thing", delay=0.5) for finding in _guarded(probe)]
    width = max(len(finding.subject) for finding in findings)
    for finding in findings:
        print(f"  {finding.mark:8}  {finding.subject:{width}}  {finding.state}")
        if finding.mend:
            print(f"  {'':8}  {'':{width}}  mend: {finding.mend}")
    lacks = sum(finding.mark == "missing" for finding in findings)
    print(f"{lacks} thing(s) missing" if lacks else "nothing is missing")
    return 0


def _guarded(probe: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """What ``probe`` finds; a broken install that makes it raise is a finding too."""
    try:
        return list(probe())
    except Exception as error:
        subject = probe.__name__.strip("_").replace("_", " ")
        return [
            Finding(subject, f"could not be asked: {type(error).__name__}: {error}", pip("--force-reinstall fusekit"))
        ]


def pip(what: str) -> str:
    """The command that installs ``what`` into the Python that runs now."""
    return f"{Path(sys.executable).name} -m pip install {what}"


def _python() -> Iterable[Finding]:
    is_new_enough = sys.version_info >= PYTHON_FLOOR
    floor = ".".join(map(str, PYTHON_FLOOR))
    yield Finding("Python", platform.python_version(), None if is_new_enough else f"make demo PYTHON=python{floor}")


def _packages() -> Iterable[Finding]:
    for name, floor, purpose in PACKAGES:
        if name == "numba-cuda" and sys.platform == "darwin":
            continue
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name, f"not installed ({purpose})", pip(f"'{name}>={floor}'"))
            continue
        is_new_enough = _release(version) >= _release(floor)
        state = f"{version} ({purpose})" if is_new_enough else f"{version} is older than {floor} ({purpose})"
        yield Finding(name, state, None if is_new_enough else pip(f"'{name}>={floor}'"))


def _release(version: str) -> tuple[int, ...]:
    """``2.13.0+cpu`` -> (2, 13, 0); a pre-release counts as its release."""
    numbers = []
    for part in version.split("+")[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)


def _layout_engine() -> Iterable[Finding]:
    from fusekit.draw import engine

    mend = engine.engine_mend()
    state = engine.engine_name()
    if mend:
        state += f" pictures only ({'; '.join(engine.lay_out('digraph { a }').why)})"
    yield Finding("layout engine", state, pip(mend.removeprefix("pip install ")) if mend else None)


def _cuda_devices() -> Iterable[Finding]:
    import torch

    if not torch.cuda.is_available():
        build = "has no CUDA" if torch.version.cuda is None else f"is for CUDA {torch.version.cuda}"
        state = f"none (this torch {build}); CUDA kernels can be read, not run"
        yield Finding(
            "CUDA devices", state, "run on a machine with an NVIDIA GPU and torch's CUDA build", is_optional=True
        )
        return
    for number in range(torch.cuda.device_count()):
        device = torch.cuda.get_device_properties(number)
        memory = device.total_memory / 2**30
        yield Finding(f"cuda:{number}", f"{device.name}, sm_{device.major}{device.minor}, {memory:.0f} GiB")


def _cuda_compilers() -> Iterable[Finding]:
    if sys.platform == "darwin":
        return
    for wheel, stem, purpose in CUDA_PARTS:
        found = find_cuda_part(stem)
        subject = stem.removeprefix("lib").upper() if stem.startswith("lib") else stem
        state = f"{found} ({purpose})" if found else f"not found ({purpose})"
        yield Finding(subject, state, None if found else pip(f"'{wheel}'"), is_optional=True)


def find_cuda_part(stem: str) -> Path | None:
    """The first file whose name begins with ``stem``: in the nvidia wheels, in the toolkit of CUDA_HOME, on PATH."""
    roots = [Path(sysconfig.get_path("purelib")) / "nvidia"]
    roots += [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    for root in roots:
        for pattern in (
            f"*/bin/{stem}*",
            f"*/lib*/{stem}*",
            f"*/nvvm/**/{stem}*",
            f"bin/{stem}*",
            f"lib*/{stem}*",
            f"nvvm/**/{stem}*",
        ):
            found = next((path for path in sorted(root.glob(pattern)) if path.is_file()), None)
            if found:
                return found
    on_path = shutil.which(stem)
    return Path(on_path) if on_path else None


def _threading_layer() -> Iterable[Finding]:
    import numba

    pools = (("tbb", "numba.np.ufunc.tbbpool"), ("omp", "numba.np.ufunc.omppool"))
    layer = next((layer for layer, pool in pools if _imports(pool)), None)
    if layer:
        yield Finding("Numba threads", f"{layer}, {numba.get_num_threads()} threads")
    else:
        state = "neither tbb nor omp loads: CPU kernels run on one thread"
        yield Finding("Numba threads", state, pip("tbb"), is_optional=True)


def _imports(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


def _cache_folder() -> Iterable[Finding]:
    from fusekit.run import cache

    folder = cache.cache_root()
    files = cache.files()
    size = sum(status.st_size for status in files) / 2**20
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    is_writable = os.access(nearest, os.W_OK)
    state = f"{folder}, {len(files)} files, {size:.1f} MiB" if is_writable else f"{folder} can't be written"
    yield Finding("cache folder", state, None if is_writable else "export FUSEKIT_CACHE=<a folder that can be written>")
    for said in cache.problems():
        yield Finding("cache folder", f"not used: {said}", f"rm -r {shlex.quote(str(folder))}")


PROBES: tuple[Callable[[], Iterable[Finding]], ...] = (
    _python,
    _packages,
    _layout_engine,
    _cuda_devices,
    _cuda_compilers,
    _threading_layer,
    _cache_folder,
)
