"""Bytes that a kernel reads from memory again: what a later pass over its loops loads and its core no longer has.

A *pass* is one loop of the program with everything straight in it. The core of a CPU still has what it has read when
all that one iteration of the loops around both passes touches is small: rows of that size come out of its own cache.
A GPU keeps rows in registers and shared memory, where the program says so; what it loads again counts again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

from fusekit.index import Form, Var
from fusekit.ir import Graph, Layout
from fusekit.lower.program import For, If, Load, Program, Statement, Store, Tile
from fusekit.memory import meets
from fusekit.run.regions import distinct

NEAR = 1 << 18
"""Bytes that a core of a CPU keeps: half of the smallest second cache of its own that servers have (512 KiB)."""

Path = tuple[tuple[int, Var], ...]  # the loops around a statement, each with its number in the program


@dataclass(frozen=True, slots=True)
class _Touch:
    """An access; ``layout``: of the tensor that it loads from (None for a store)."""

    path: Path
    memory: str
    address: Form
    width: int
    layout: Layout | None = None

    def nbytes(self, loops: Iterable[Var]) -> int:
        """What it touches in all iterations of these loops, others standing still."""
        return prod(var.extent for var in self.address.free.intersection(loops)) * self.width


def read_again(graph: Graph, program: Program) -> int:
    """Bytes that later passes load of what earlier ones have loaded, and on a GPU what one pass loads twice."""
    touched = list(_touched(graph, program.body))
    near = 0 if program.axes else NEAR
    passes: dict[tuple[str, Path], list[_Touch]] = {}
    for t in touched:
        if t.layout is not None:
            passes.setdefault((t.memory, t.path), []).append(t)
    again = 0 if near else sum(map(_twice, passes.values()))
    for memory, path in passes:
        before = [p for m, p in passes if m == memory]
        before = before[: before.index(path)]
        for layout in dict.fromkeys(t.layout for t in passes[memory, path]):
            earlier = [p for p in before if _shares(layout, passes[memory, p])]
            if earlier and not _is_near(earlier[-1], path, touched, program.body, near):
                known = sum(_once(passes[memory, p]) for p in earlier)
                again += min(_once([t for t in passes[memory, path] if t.layout == layout]), known)
    return again


def _touched(
    graph: Graph, body: Iterable[Statement], path: Path = (), count: list[int] | None = None
) -> Iterator[_Touch]:
    count = [0] if count is None else count
    for statement in body:
        match statement:
            case Load(memory=memory, address=address, dtype=dtype, ops=ops):
                layout = graph.layout(graph.operands(ops[0])[0]) if ops else None
                yield _Touch(path, memory, address, dtype.width, layout)
            case Store(memory=memory, address=address, dtype=dtype):
                yield _Touch(path, memory, address, dtype.width)
            case If(body=inside):
                yield from _touched(graph, inside, path, count)
            case For(var=var, body=inside):
                count[0] += 1
                yield from _touched(graph, inside, (*path, (count[0], var)), count)
            case _:
                pass


def _shares(layout: Layout | None, loads: Iterable[_Touch]) -> bool:
    """Does the layout have a byte that one of these loads may read?"""
    others = dict.fromkeys(t.layout for t in loads)
    return any(a == layout or (a is not None and layout is not None and meets(a, layout) is not False) for a in others)


def _once(loads: list[_Touch]) -> int:
    """Bytes that the loads of one pass read, each once; nothing where no loop makes a difference."""
    size = sum(t.nbytes(_steps(t.address)) for t in dict.fromkeys(loads) if _steps(t.address))
    return min(size, sum(distinct(layout) for layout in {t.layout for t in loads} if layout is not None))


def _twice(loads: list[_Touch]) -> int:
    """Bytes that the loads of one pass read more than once: after a barrier, where registers did not keep them."""
    more = [t for k, t in enumerate(loads) if t in loads[:k]]
    return sum(t.nbytes(_steps(t.address)) for t in more if _steps(t.address))


def _steps(address: Form) -> list[Var]:
    return [var for var in address.free if var.kind != "number"]


def _is_near(first: Path, then: Path, touched: list[_Touch], body: Iterable[Statement], near: int) -> bool:
    """Is all that happens in one iteration of the loops around both passes small enough to be there still?"""
    common = next((k for k, (a, b) in enumerate(zip(first, then, strict=False)) if a != b), min(len(first), len(then)))
    around = first[:common]
    inside: dict[tuple[str, Layout | None], int] = {}
    for t in touched:
        if t.path[:common] == around:
            key = t.memory, t.layout
            inside[key] = max(inside.get(key, 0), t.nbytes(var for _, var in t.path[common:]))
    return sum(inside.values()) + _arrays(body) <= near


def _arrays(body: Iterable[Statement]) -> int:
    """Bytes of the arrays that carry values from pass to pass."""
    total = 0
    for statement in body:
        match statement:
            case Tile(dtype=dtype, size=size):
                total += size * dtype.width
            case If(body=inside) | For(body=inside):
                total += _arrays(inside)
            case _:
                pass
    return total
