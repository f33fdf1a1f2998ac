"""Where the time of a call goes: a row a segment, beside what the device can copy and what eager needs.

Everything runs on clones that keep the arguments' aliasing, and begins with the same bytes each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from itertools import groupby

import torch
from tqdm.auto import tqdm

from fusekit.escape import line
from fusekit.ids import NodeId
from fusekit.ir import Graph, core
from fusekit.lower import Kernel
from fusekit.run.bytes import moved_by
from fusekit.run.clones import clones
from fusekit.run.decode import Leaves, Scalar
from fusekit.run.memory import Memory
from fusekit.run.plan import Plan, Step, execute
from fusekit.run.timing import Clock, Same, bandwidth_of, clock_of, medians, timed, unchanged

HEADER = ("segment", "what", "launches", "time", "bytes", "GB/s", "of a copy")
SHOW_AFTER = 2.0  # seconds until a progress bar


@dataclass(frozen=True, slots=True)
class SegmentTime:
    """``seconds``: the median of the runs. ``launches``: kernels, copies and library calls. ``share``: of the device's
    measured copy bandwidth; None where nothing is moved or nothing took time."""

    segment: str
    what: str
    launches: int
    seconds: float
    nbytes: int
    share: float | None = None

    @property
    def rate(self) -> float | None:
        """GB/s, each byte counted once that is read and once that is written."""
        return self.nbytes / self.seconds / 1e9 if self.nbytes and self.seconds else None


@dataclass(frozen=True, repr=False)
class Profile:
    """``call``: seconds of a whole call; ``eager``: of the function as torch runs it; both medians of ``runs`` runs.

    ``bandwidth``: GB/s of a large copy on ``device``. Print it, or take ``data()``.
    """

    name: str
    device: str
    bandwidth: float
    segments: tuple[SegmentTime, ...]
    call: float
    eager: float
    runs: int

    @property
    def speedup(self) -> float:
        """How many times as long eager takes."""
        return self.eager / self.call if self.call else 1.0

    def __getitem__(self, segment: str) -> SegmentTime:
        """The row of a segment; KeyError for one that launches nothing."""
        found = next((row for row in self.segments if row.segment == segment), None)
        if found is None:
            raise KeyError(segment)
        return found

    def data(self) -> dict[str, object]:
        """Plain numbers and strings, for a page: the fields, and of each segment its GB/s."""
        rows = [asdict(row) | {"rate": row.rate} for row in self.segments]
        return asdict(self) | {"segments": rows, "speedup": self.speedup}

    def __repr__(self) -> str:
        rows = [HEADER, *(_cells(row) for row in self.segments), _cells(self._all())]
        widths = [max(len(row[k]) for row in rows) for k in range(len(HEADER))]
        lines = [_line(row, widths) for row in rows]
        rule = "-" * max(map(len, lines))
        ends = f"a call {duration(self.call)}, eager {duration(self.eager)}, {self.speedup:.2f} times as long"
        notes = [f"{ends}; medians of {self.runs} runs"]
        if any((row.share or 0) > 1 for row in self.segments):
            notes.append("over 100 %: the bytes were still in a cache")
        head = f"{line(self.name)} on {self.device}, which copies {self.bandwidth:.1f} GB/s"
        return "\n".join([head, "", lines[0], rule, *lines[1:-1], rule, lines[-1], "", *notes])

    def _all(self) -> SegmentTime:
        seconds = sum(row.seconds for row in self.segments)
        nbytes = sum(row.nbytes for row in self.segments)
        launches = sum(row.launches for row in self.segments)
        return _with_share(SegmentTime("all", "", launches, seconds, nbytes), self.bandwidth)


def profile(
    name: str,
    graph: Graph,
    plan: Plan,
    kernels: Mapping[NodeId, Kernel],
    inputs: Sequence[torch.Tensor],
    numbers: Sequence[Scalar],
    leaves: Leaves,
    eager: tuple[Callable[[], object], Sequence[torch.Tensor], Sequence[torch.Tensor]],
    budget: float = 1.0,
) -> Profile:
    """Time every segment of ``plan``, a whole call, and eager; ``budget`` seconds each, or a few runs if that is more.

    ``inputs`` are cloned. ``eager``: a call on clones; these clones; and the caller's captures, which it may write and
    which get their bytes back. Raises BackendUnavailable where the device, or what it needs, is missing.
    """
    device = device_of(graph)
    clock, bandwidth = clock_of(device), bandwidth_of(device)
    mine = clones(inputs)
    groups = _by_segment(plan)
    call, theirs, captures = eager

    def by_segment() -> list[object]:
        memory = Memory(plan.blocks, mine, numbers)
        marks = [clock.mark()]
        for _, steps in groups:
            for step in steps:
                step(memory, leaves)
            marks.append(clock.mark())
        return marks

    with torch.no_grad(), random_state_kept(device), _progress(name) as bar:
        seconds, _ = _median(clock, by_segment, Same(mine), budget, bar)
        whole, runs = _median(
            clock, _marked(clock, lambda: execute(plan, mine, numbers, leaves)), Same(mine), budget, bar
        )
        with unchanged(captures):
            by_torch, _ = _median(clock, _marked(clock, call), Same([*theirs, *captures]), budget, bar)
    rows = [_row(graph, kernels, *found) for found in zip(groups, seconds, strict=True)]
    shared = tuple(_with_share(row, bandwidth) for row in rows)
    return Profile(name, described(device), bandwidth, shared, whole[0], by_torch[0], runs)


def random_state_kept(device: torch.device) -> AbstractContextManager[None]:
    """Random ops that are timed leave no trace in torch's generators."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


def device_of(graph: Graph) -> torch.device:
    """The device of the memory blocks; that of a GPU where there are both, for a 0-d CPU tensor is only a number."""
    devices = dict.fromkeys(torch.device(graph.block(block).device) for block in graph.blocks())
    return next((device for device in devices if device.type != "cpu"), torch.device("cpu"))


def described(device: torch.device) -> str:
    """``cpu (8 threads)``, ``cuda:0 (NVIDIA H200)``."""
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    threads = torch.get_num_threads()
    return f"cpu ({threads} thread{'' if threads == 1 else 's'})"


# ---- runs ---------------------------------------------------------------------------------------------------------


def _by_segment(plan: Plan) -> list[tuple[NodeId, list[Step]]]:
    """The steps of each segment that has some."""
    pairs = zip(plan.owners, plan.steps, strict=True)
    return [(segment, [step for _, step in steps]) for segment, steps in groupby(pairs, key=lambda pair: pair[0])]


def _marked(clock: Clock, call: Callable[[], object]) -> Callable[[], list[object]]:
    def work() -> list[object]:
        first = clock.mark()
        out = call()
        marks = [first, clock.mark()]
        del out  # its memory is free again for the next run, as it would be in a loop
        return marks

    return work


def _progress(name: str) -> tqdm:
    return tqdm(desc=f"profiling {name}", unit="run", delay=SHOW_AFTER, leave=False)


def _median(
    clock: Clock, work: Callable[[], list[object]], same: Same, budget: float, bar: tqdm
) -> tuple[list[float], int]:
    """(seconds between the marks, how many runs)."""
    runs: list[list[float]] = []
    for run in timed(clock, work, same, budget):
        runs.append(run)
        bar.update()
    return medians(runs), len(runs)


# ---- rows ---------------------------------------------------------------------------------------------------------


def _row(
    graph: Graph, kernels: Mapping[NodeId, Kernel], group: tuple[NodeId, list[Step]], seconds: float
) -> SegmentTime:
    segment, _ = group
    kernel = kernels.get(segment)
    nbytes = moved_by(graph, segment, kernel).total
    if kernel is not None:
        return SegmentTime(segment, kernel.name, 1 + kernel.copies, seconds, nbytes)
    members = [graph.what(op) for op in graph.members(segment)]
    targets = [what.target for what in members]
    calls = [what.target for what in members if isinstance(what, core.Call)]
    if graph.segment(segment).scheduler == "extern" and calls:
        return SegmentTime(segment, _names(calls), len(calls), seconds, nbytes)
    return SegmentTime(segment, f"op by op: {_names(calls or targets)}", len(targets), seconds, nbytes)


def _names(targets: Iterable[str]) -> str:
    names = list(dict.fromkeys(target.removeprefix("aten.").removesuffix(".default") for target in targets))
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _with_share(row: SegmentTime, bandwidth: float) -> SegmentTime:
    share = row.rate / bandwidth if row.rate is not None and bandwidth else None
    return SegmentTime(row.segment, row.what, row.launches, row.seconds, row.nbytes, share)


def _cells(row: SegmentTime) -> tuple[str, ...]:
    rate = "" if row.rate is None else f"{row.rate:.1f}"
    share = "" if row.share is None else f"{100 * row.share:.0f} %"
    return row.segment, row.what, str(row.launches), duration(row.seconds), size(row.nbytes), rate, share


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Words to the left, numbers to the right."""
    padded = (c.ljust(w) if k < 2 else c.rjust(w) for k, (c, w) in enumerate(zip(cells, widths, strict=True)))
    return "  ".join(padded).rstrip()


def duration(seconds: float) -> str:
    """``41.3 µs``, ``1.83 ms``, ``2.40 s``."""
    for limit, factor, unit in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
        if seconds < limit:
            value = seconds * factor
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"
    return f"{seconds:.2f} s"


def size(nbytes: int) -> str:
    """``12 B``, ``4.0 MiB``."""
    if nbytes < 1024:
        return f"{nbytes} B"
    value = float(nbytes)
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        if value < 1024 or unit == "GiB":
            return f"{value:.1f} {unit}"
    raise AssertionError("the last unit has no end")
