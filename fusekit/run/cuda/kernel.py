"""A lowered kernel on CUDA: its PTX, and what a call does in front of the launch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from fusekit.errors import BackendUnavailable, UnsupportedError
from fusekit.ids import NodeId
from fusekit.ir import Graph
from fusekit.lower import CannotLower, Kernel
from fusekit.lower.print_cuda import launch_shape, print_cuda, scratch_of
from fusekit.lower.program import Load, Param, Snapshot, Store
from fusekit.lower.scalars import HALVES, held
from fusekit.lower.uses import walk
from fusekit.ops import functions
from fusekit.run.cuda import scratch
from fusekit.run.cuda.check import Assembly, assemble
from fusekit.run.cuda.device import current_stream, describe
from fusekit.run.cuda.module import Extent, Launch, bindings, load
from fusekit.run.cuda.ptx import Ptx, compile_ptx
from fusekit.run.intrinsics import PLAIN

ALIGNED = 16
DEFAULT_CC = (9, 0)
"""The compute capability that PTX is shown for where there is no device."""


@dataclass(frozen=True, slots=True, repr=False)
class CudaKernel(Kernel):
    """``graph`` is what it was lowered from: the text for memory that starts anywhere is printed when first needed.
    ``values``: memory of the CPU that is passed as the number that it holds.
    """

    graph: Graph = field(kw_only=True, repr=False, compare=False)
    values: Mapping[str, Load] = field(kw_only=True, default_factory=dict[str, Load], repr=False, compare=False)

    @property
    def kinds(self) -> tuple[str, ...]:
        """What the kernel takes: the program's parameters, snapshots, scratch memory and counters."""
        kinds = [self._kind(param) for param in self.program.params] + ["address"] * len(self.snapshots)
        return (*kinds, "address", "address") if scratch_of(self.program).partials else tuple(kinds)

    def _kind(self, param: Param) -> str:
        load = self.values.get(param.name)
        return param.kind if load is None else "int" if load.dtype.is_integral else "float"

    @property
    def room(self) -> int:
        """None that the kernel asks for itself: torch allocates its snapshots in front of the launch, and raises."""
        return 0

    @property
    def launch(self) -> tuple[Extent, Extent]:
        """(blocks of the grid, threads of a block), x first."""
        return launch_shape(self.program)

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """The copies that each call makes in front of the launch."""
        return tuple(statement for statement in self.program.body if isinstance(statement, Snapshot))

    @property
    def ptx(self) -> str:
        """The PTX for the first device, or for compute capability 9.0 where there is none."""
        return self.compiled().text

    def compiled(self, cc: tuple[int, int] | None = None, vectors: bool = True) -> Ptx:
        """PTX of a compute capability; ``vectors``: may accesses be wider than an element?"""
        _, (x, y, z) = self.launch
        source = self.source if vectors else self.scalar_source
        return compile_ptx(
            source, self.name, self.kinds, cc or _capability(), threads=x * y * z, blocks=self.blocks_per_sm,
            contract=self.precision == "fast", quick=self.precision == "fast" and self._stores_halves,
        )  # fmt: skip

    @property
    def _stores_halves(self) -> bool:
        """Are halves all that is stored? Their rounding hides the last bits of a float32."""
        return all(s.dtype in HALVES for s in walk(self.program.body) if isinstance(s, Store))

    def assembled(self, cc: tuple[int, int] | None = None) -> Assembly:
        """What ptxas makes of it. Raises BackendUnavailable where there is no ptxas."""
        return assemble(self.compiled(cc))

    @property
    def scalar_source(self) -> str:
        """The same kernel with accesses of one element each."""
        exact = self.precision == "eager"
        made = print_cuda(self.program, self.name, self.graph, vectors=False, values=self.values.keys(), exact=exact)
        return made.text

    def export(self, path: str | Path) -> Path:
        """The PTX in a file, with the source in front as comments."""
        target = Path(path)
        head = "".join(f"// {line}\n" for line in self.source.splitlines())
        target.write_text(f"{head}// grid {self.launch[0]}, block {self.launch[1]}\n{self.ptx}", encoding="utf-8")
        return target


def as_cuda(kernel: Kernel, graph: Graph) -> CudaKernel:
    """A kernel that was lowered for CUDA, with what CUDA adds to it."""
    fields = {f.name: getattr(kernel, f.name) for f in dataclasses.fields(kernel)}
    values = _values(kernel, graph)
    if values:
        made = print_cuda(kernel.program, kernel.name, graph, values=values.keys(), exact=kernel.precision == "eager")
        fields |= {"source": made.text, "lines": made.lines}
    return CudaKernel(**fields, graph=graph, values=values)


def _values(kernel: Kernel, graph: Graph) -> dict[str, Load]:
    """Parameters that are 0-d CPU tensors among CUDA ones, each with the one load from it. Raises CannotLower."""
    on_cpu = {p.name for p in kernel.program.params if p.node is not None and is_on_cpu(graph, p.node)}
    if len(on_cpu) == sum(param.node is not None for param in kernel.program.params):
        return {}  # all are: nothing but a look at what a GPU would run
    found: dict[str, Load] = {}
    for statement in walk(kernel.program.body):
        if not isinstance(statement, Load | Store | Snapshot) or statement.memory not in on_cpu:
            continue
        if not isinstance(statement, Load) or not _is_same(found.setdefault(statement.memory, statement), statement):
            raise CannotLower(f"{statement.memory} is memory of the CPU, which a GPU only takes as one number")
    return found


def _is_same(a: Load, b: Load) -> bool:
    """Do both read one and the same element?"""
    return a.address.is_constant and (a.address, a.dtype) == (b.address, b.dtype)


def is_on_cpu(graph: Graph, block: NodeId) -> bool:
    return graph.block(block).device.startswith("cpu")


def _capability() -> tuple[int, int]:
    try:
        return describe(0).cc
    except BackendUnavailable:
        return DEFAULT_CC


def device_of(graph: Graph) -> int:
    """The index of the one CUDA device that a graph's blocks are on. Raises BackendUnavailable, UnsupportedError."""
    describe(0)
    devices = {torch.device(graph.block(block).device) for block in graph.blocks()}
    found = {device.index or 0 for device in devices if device.type == "cuda"}
    if len(found) != 1:
        what = "CPU tensors" if not found else f"tensors of {len(found)} CUDA devices"
        raise UnsupportedError(f"the backend 'cuda' on {what}", None, "move the arguments to one CUDA device")
    return found.pop()


# ---- calls -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Copied:
    """A snapshot: the number of the parameter it copies from, and which bytes."""

    source: int
    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first


def copied(kernel: CudaKernel) -> tuple[Copied, ...]:
    number = {param.name: k for k, param in enumerate(kernel.program.params)}
    return tuple(Copied(number[s.memory], s.first, s.last) for s in kernel.snapshots)


def addresses_of(kernel: CudaKernel) -> tuple[int, ...]:
    """The numbers of the parameters that are addresses."""
    return tuple(
        k
        for k, param in enumerate(kernel.program.params)
        if param.kind == "address" and param.name not in kernel.values
    )


def compile_kernel(kernel: CudaKernel, device: int) -> Callable[..., None]:
    """The kernel, loaded on a device; a call launches it on the current stream. Raises BackendUnavailable."""
    return _Call(kernel, device)


def _readers(kernel: CudaKernel) -> tuple[tuple[int, Callable[[int], int | float]], ...]:
    """(number of a parameter, how its number is read from an address of the CPU)."""
    number = {param.name: k for k, param in enumerate(kernel.program.params)}
    return tuple((number[name], _reader(load)) for name, load in kernel.values.items())


def _reader(load: Load) -> Callable[[int], int | float]:
    first, dtype = load.address.const, load.dtype
    unpack = functions()[f"unpack_{dtype}"] if dtype in HALVES else lambda value: value
    raw, kind = PLAIN[f"load_{held(dtype)}"], int if dtype.is_integral else float
    return lambda address: kind(unpack(raw(address + first, 0)))


class _Call:
    """Addresses and numbers in, one launch out."""

    def __init__(self, kernel: CudaKernel, device: int):
        self.kernel, self.device = kernel, device
        self.scratch, self.copies = scratch_of(kernel.program), copied(kernel)
        self._addresses = addresses_of(kernel)
        self._values = _readers(kernel)
        self._is_plain = not self.copies and not self.scratch.partials and not self._values
        self._launch = self._make(True)
        self._scalar: Launch | None = None

    def _make(self, vectors: bool) -> Launch:
        grid, block = self.kernel.launch
        function = load(self.kernel.compiled(describe(self.device).cc, vectors), self.device)
        return Launch(function, grid, block, self.scratch.together)

    def __call__(self, *args: int | float) -> None:
        launch = self._launch if self.is_aligned(args) else self._unaligned()
        if self._is_plain:
            launch(args)
            return
        keep: list[torch.Tensor] = []
        for k, read in self._values:
            args = (*args[:k], read(int(args[k])), *args[k + 1 :])
        launch((*args, *self._copy(args, keep), *self._shared(keep)))

    def is_aligned(self, args: Sequence[int | float]) -> bool:
        return is_aligned(args, self._addresses)

    def _unaligned(self) -> Launch:
        if self._scalar is None:
            self._scalar = self._make(False)
        return self._scalar

    def _copy(self, args: Sequence[int | float], keep: list[torch.Tensor]) -> list[int]:
        """Copies on the current stream; each is given as the address that its block would have."""
        out: list[int] = []
        for one in self.copies:
            room = _room(one.size + ALIGNED, self.device)
            keep.append(room)
            source = int(args[one.source]) + one.first
            target = room.data_ptr() + one.first % ALIGNED
            status = bindings().cuMemcpyDtoDAsync(target, source, one.size, current_stream(self.device))[0]
            if status != bindings().CUresult.CUDA_SUCCESS:
                raise RuntimeError(f"{self.kernel.name}: a snapshot of {one.size} bytes failed: {status.name}")
            out.append(target - one.first)
        return out

    def _shared(self, keep: list[torch.Tensor]) -> list[int]:
        if not self.scratch.partials:
            return []
        keep += [
            scratch.partials(self.device, self.scratch.partials),
            scratch.counters(self.device, self.scratch.counters),
        ]
        return [tensor.data_ptr() for tensor in keep[-2:]]


def _room(size: int, device: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device=torch.device("cuda", device))


def is_aligned(args: Sequence[int | float], addresses: Sequence[int]) -> bool:
    """Do all addresses allow the widest access?"""
    bits = 0
    for k in addresses:
        bits |= int(args[k])
    return not bits % ALIGNED
