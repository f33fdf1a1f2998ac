"""Folds of a whole tensor on the threads of a CPU: each iteration of the outermost loop keeps what it has found, and
what they found is put together afterwards, in their order. So the result does not hang on the number of threads::

    total = 0                            parts = scratch(...)
    for i0 in ...:              ->       for i0 in prange(...):
        for i1 in ...:                       part = 0
            total += x                       for i1 in ...: part += x
                                             parts[i0] = part
                                         total = 0
                                         for k in ...: total += parts[k]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from fusekit.index import Form, Var
from fusekit.lower.names import Names
from fusekit.lower.program import (
    Accumulate,
    Buffer,
    For,
    If,
    Init,
    Load,
    Program,
    Statement,
    Store,
    TileLoad,
)
from fusekit.lower.uses import walk


def in_parts(program: Program, names: Names) -> Program:
    """The program with parallel loops that fold into accumulators of their own only."""
    inits = {s.name: s for s in program.body if isinstance(s, Init)}
    body: list[Statement] = []
    for statement in program.body:
        body += _in_parts(statement, inits, names) if isinstance(statement, For) else [statement]
    return replace(program, body=tuple(body))


def _in_parts(loop: For, inits: dict[str, Init], names: Names) -> list[Statement]:
    shared = [inits[name] for name in dict.fromkeys(s.name for s in _accumulates(loop.body)) if name in inits]
    if not loop.parallel or not shared:
        return [loop]
    if any(init.fold.is_arg for init in shared):  # a pair: its position would have to be kept too
        return [replace(loop, parallel=False)]
    parts = [_Parts(init, loop, names) for init in shared]
    own = {part.whole.name: part.name for part in parts}
    inside = (*(part.init for part in parts), *_renamed(loop.body, own), *(s for part in parts for s in part.store()))
    after = [s for part in parts for s in part.join()]
    return [*(part.scratch for part in parts), replace(loop, body=inside), *after]


def _accumulates(body: Iterable[Statement]) -> Iterator[Accumulate]:
    return (s for s in walk(body) if isinstance(s, Accumulate))


def _renamed(body: Iterable[Statement], names: dict[str, str]) -> Iterator[Statement]:
    """The statements with other accumulators."""
    for s in body:
        match s:
            case Accumulate(name=name) if name in names:
                yield replace(s, name=names[name])
            case For() | If():
                yield replace(s, body=tuple(_renamed(s.body, names)))
            case _:
                yield s


class _Parts:
    """What the iterations of ``loop`` find for the accumulator of ``whole``, in memory of the kernel's own."""

    def __init__(self, whole: Init, loop: For, names: Names):
        self.whole, self.loop, self.names = whole, loop, names
        self.count, self.width = whole.count or 1, whole.dtype.width
        self.name = names.fresh(f"{whole.name}_here")
        self.init = replace(whole, name=self.name)
        self.scratch = Buffer(names.fresh(f"{whole.name}_parts"), loop.var.extent * self.count * self.width)

    def store(self) -> Iterator[Statement]:
        """At the end of an iteration."""
        each, dtype = Form.of(self.loop.var) * self.count, self.whole.dtype
        if self.whole.count is None:
            yield Store(self.scratch.name, each * self.width, self.name, dtype)
            return
        k = Var(self.names.fresh("k_at"), self.count)
        value = self.names.fresh("part")
        load = TileLoad(value, self.name, Form.of(k), dtype)
        yield For(k, (load, Store(self.scratch.name, (each + Form.of(k)) * self.width, value, dtype)))

    def join(self) -> Iterator[Statement]:
        """After the loop: the parts in order."""
        dtype, value = self.whole.dtype, self.names.fresh("part")
        part, k = Var(self.names.fresh("part_at"), self.loop.var.extent), Var(self.names.fresh("k_at"), self.count)
        at = None if self.whole.count is None else Form.of(k)
        address = (Form.of(part) * self.count + (at or Form())) * self.width
        fold = Accumulate(self.whole.name, self.whole.fold, value, dtype, dtype, at=at)
        body: tuple[Statement, ...] = (Load(value, self.scratch.name, address, dtype), fold)
        yield For(part, body if at is None else (For(k, body),))
