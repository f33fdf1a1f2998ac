"""Loop-nest IR to Python source for Numba CUDA. The simulator runs the very same text, thread by thread.

A vector is a tuple of lanes. The kernel takes the program's parameters, then the address of each snapshot, then, where
blocks combine their results, ``partials`` and ``counters``. Nothing here lets the compiler take memory for constant.
"""

from __future__ import annotations

import builtins
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from typing import assert_never

from fusekit.dtypes import I64
from fusekit.index import Form
from fusekit.ir import Graph, Parallel
from fusekit.lower import scalars
from fusekit.lower.expressions import Literal
from fusekit.lower.folds import ARG, joined
from fusekit.lower.packed import copied
from fusekit.lower.print_folds import FoldPrinter
from fusekit.lower.print_lanes import Run, is_lanewise
from fusekit.lower.print_threads import scratch_of
from fusekit.lower.printing import Source, cases_text, import_from, source_of
from fusekit.lower.program import (
    Accumulate,
    Assign,
    Buffer,
    Combine,
    Deliver,
    Finish,
    For,
    Hold,
    If,
    Init,
    Load,
    Program,
    Snapshot,
    Statement,
    Stop,
    Store,
    Sync,
    Test,
    Tile,
    TileLoad,
    TileStore,
)
from fusekit.lower.uses import expr_reads, names_in, reads, walk
from fusekit.ops import functions

WIDEST = 16  # bytes of one access
EXACT = ("exact_", "shared_exact_", "masked_exact_")
LANES = "v"
AXES = {
    Parallel.BIDx: "block_x", Parallel.BIDy: "block_y", Parallel.BIDz: "block_z",
    Parallel.TIDx: "thread_x", Parallel.TIDy: "thread_y", Parallel.TIDz: "thread_z",
}  # fmt: skip
Lanewise = Assign | Accumulate | Finish | Test
_CALLED = re.compile(r"(?<![\w.])([A-Za-z_]\w*)(?=\()")
_COPY = re.compile(r"\w+ = [A-Za-z_]\w*")
_BUILTINS = frozenset(dir(builtins))
_DTYPES = ("bool", "u8", "i8", "u16", "i16", "f16", "bf16", "u32", "i32", "f32", "u64", "i64", "f64")
_ACCESS = {
    f"{word}_{space}{dtype}{width}"
    for word in ("load", "store") for dtype in _DTYPES
    for space in ("", "shared_", "within_", "masked_", "packed_", *EXACT)
    for width in ("", "x2", "x4", "x8", "x16")
}  # fmt: skip
_ACROSS = {f"{level}_{word}" for level in ("warp", "block") for word in ("sum", "prod", "max", "min")}
RESERVED_CUDA = frozenset({
    "np", "math", LANES, "bx", "by", "bz", "tx", "ty", "tz", "partials", "counters", "each_lane", "last_block",
    "sync_grid", "shared_memory", "shuffle_xor", "stop", "sync_threads", "div_u32", "mod_u32", "max_nan", "min_nan",
    "repeat_lanes", *AXES.values(),
    *(f"{word}_lanes" for word in ("sum", "prod", "max", "min")), *ARG.values(), *_ACCESS, *_ACROSS, *functions(),
})  # fmt: skip


def print_cuda(
    program: Program,
    name: str,
    graph: Graph,
    notes: Iterable[str] = (),
    *,
    vectors: bool = True,
    values: Collection[str] = (),
    exact: bool = True,
) -> Source:
    """The source of a program; ``notes`` become comments under the function's head.

    ``vectors``: False for memory that may start anywhere, where every access is one element. ``values``: parameters
    that are no address but the one element there. ``exact``: registers of bfloat16 hold rounded values, so that a store
    only drops what is zero, and a NaN that is moved keeps its bits.
    """
    printer = CudaPrinter(graph, program, vectors, values, exact)
    printer.indent = 1
    for note in notes:
        printer.put(f"# {note}")
    printer.positions()
    printer.body(program.body)
    printer.number_lanes()
    if not program.body:
        printer.put("pass")
    params = [*(param.name for param in program.params), *_snapshots(program)]
    params += ["partials", "counters"] if scratch_of(program).partials else []
    parts = [*printer.functions.lines, ("", ()), ("", ()), (f"def {name}({', '.join(params)}):", ()), *printer.lines]
    return source_of(name, printer.imports([text for text, _ in parts]), parts)


def _snapshots(program: Program) -> list[str]:
    return [statement.name for statement in program.body if isinstance(statement, Snapshot)]


# ---- the launch ---------------------------------------------------------------------------------------------------


Extent = tuple[int, int, int]


def launch_shape(program: Program) -> tuple[Extent, Extent]:
    """(blocks of the grid, threads of a block), x first; an axis of no step still has one, which stores identities."""
    extents = {axis.parallel: max(axis.var.extent, 1) for axis in program.axes}
    grid = (Parallel.BIDx, Parallel.BIDy, Parallel.BIDz)
    block = (Parallel.TIDx, Parallel.TIDy, Parallel.TIDz)
    x, y, z = (extents.get(axis, 1) for axis in grid)
    a, b, c = (extents.get(axis, 1) for axis in block)
    return (x, y, z), (a, b, c)


# ---- the text -----------------------------------------------------------------------------------------------------


class CudaPrinter(FoldPrinter):
    def __init__(self, graph: Graph, program: Program, vectors: bool, values: Collection[str], exact: bool):
        super().__init__(graph, program, vectors, values, exact, RESERVED_CUDA)
        self.readers = Counter(n for s in walk(program.body) if not isinstance(s, If | For) for n in reads(s))
        self.needs_lanes, self.start = False, 0

    def imports(self, texts: Sequence[str]) -> list[str]:
        own = {text.split("(")[0][4:] for text in texts if text.startswith("def ")}
        called = {name for text in texts for name in _CALLED.findall(text.split("  # ")[0])} - own - _BUILTINS
        table = functions()
        homes = {name: table[name].__module__ for name in called & table.keys()}
        out = ["import math", "", "import numpy as np", ""]
        out += [import_from(home, (n for n in homes if homes[n] == home)) for home in sorted(set(homes.values()))]
        rest = called - homes.keys()
        return [*out, import_from("fusekit.run.cuda.intrinsics", rest)] if rest else out

    def positions(self) -> None:
        """The indices that the launch gives, and the numbers of the lanes where some value needs them."""
        axes = self.program.axes
        if axes:
            calls = ", ".join(f"{AXES[axis.parallel]}()" for axis in axes)
            self.put(f"{', '.join(axis.var.name for axis in axes)} = {calls}")
        self.start = len(self.lines)

    def number_lanes(self) -> None:
        """The numbers of the lanes as a vector, where some value needs them: behind the positions."""
        if self.needs_lanes:
            text = f"    {LANES} = ({', '.join(f'np.int64({k})' for k in range(self.count))})"
            self.lines.insert(self.start, (text, ()))

    # ---- statements

    def body(self, statements: Sequence[Statement]) -> None:
        for kind, group in groupby(statements, key=_kind):
            if kind == "lanes":
                for part in self.parts([s for s in group if isinstance(s, Assign | Accumulate | Finish | Test)]):
                    self.run(part)
            elif kind == "blocks":
                self.across_blocks([s for s in group if isinstance(s, Combine)])
            else:
                for statement in group:
                    self.statement(statement)

    def statement(self, statement: Statement) -> None:
        match statement:
            case Load():
                self.load(statement)
            case Assign(name, Literal(), _, ops, True) if name in self.packed:
                self.put(f"{name} = repeat_lanes(np.int32(0), {self.count // 2})", ops)
            case Assign(name, value, _, ops, lanes):
                text = self.expr(value)
                self.commented(f"{name} = {self.repeated(text) if lanes else text}", ops)
            case Test(name, guards):
                self.put(f"{name} = {self.test(guards)}")
            case Store():
                self.store(statement)
            case If(cases, body):
                self.put(f"if {cases_text(cases)}:")
                self.nested(body)
            case For():
                self.loop(statement)
            case Init():
                self.init(statement)
            case Accumulate() | Finish():
                for text in self.one(statement):
                    self.commented(text, statement.ops)
            case Combine():
                self.combine(statement)
            case Sync():
                self.put("sync_threads()")
            case Tile(name, dtype, size):
                self.put(f"{name} = shared_memory({size * dtype.width})")
            case TileLoad():
                self.tile_load(statement)
            case TileStore():
                self.tile_store(statement)
            case Hold() | Deliver():
                for text in self.threads.held(statement):
                    self.put(text)
            case Snapshot(name, memory):
                self.put(f"# {name}: {memory} as it was before this kernel")
            case Buffer():
                raise TypeError("a GPU's blocks put their parts together by Combine")
            case Stop(name):
                self.put(f"if {name}:")
                self.put("    stop()  # as eager asserts; look-ups below are kept in bounds")
            case _:
                assert_never(statement)

    def loop(self, loop: For) -> None:
        n = loop.var.extent
        end = f"min({n}, {self.form(loop.stop)})" if loop.stop is not None else str(n)
        self.put(f"for {loop.var.name} in {f'range({end} - 1, -1, -1)' if loop.reverse else f'range({end})'}:")
        self.loops += 1
        self.nested(loop.body)
        self.loops -= 1

    # ---- vectors

    def one(self, statement: Lanewise) -> list[str]:
        """The lines of a statement over scalars, or of one lane of it."""
        match statement:
            case Assign(name, value):
                return [f"{name} = {self.expr(value)}"]
            case Test(name, guards):
                return [f"{name} = {self.test(guards)}"]
            case Finish(name, of, fold, source, dtype, _, lanes):
                held = self.accumulator(of, lanes)
                return [f"{name} = {self.position_of(held)}"] if fold.is_arg else [
                    f"{name} = {scalars.convert(held, source, dtype)}"
                ]  # fmt: skip
            case Accumulate(name, fold, value, source, dtype, position, lanes, _, _, mask):
                held = self.accumulator(name, lanes)
                taken = scalars.convert(value, source, dtype)
                if not fold.is_arg:
                    more = joined(fold, held, taken)
                    return [f"{held} = {more}" if mask is None else f"{held} = {more} if {mask} else {held}"]
                self.pairs(fold)
                at, where = self.position_of(held), scalars.position(self.form(position or Form()), 0, 1, I64)
                return [f"{held}, {at} = {ARG[fold]}({held}, {at}, {taken}, {where})"]
            case _:
                raise AssertionError(f"{statement} is not computed lane by lane")

    def parts(self, statements: Sequence[Lanewise]) -> list[list[Lanewise]]:
        """Statements that need nothing of one another are parted: unrolled copies then share one function."""
        home: dict[str, int] = {}  # name -> the statement that its part is known by
        joined = list(range(len(statements)))

        def root(k: int) -> int:
            while joined[k] != k:
                k = joined[k]
            return k

        for k, statement in enumerate(statements):
            for name in (*reads(statement), statement.name):
                if name in home:
                    first, second = sorted((root(home[name]), root(k)))
                    joined[second] = first
            home[statement.name] = k
        found: dict[int, list[Lanewise]] = {}
        for k, statement in enumerate(statements):
            found.setdefault(root(k), []).append(statement)
        return list(found.values())

    def run(self, statements: Sequence[Lanewise]) -> None:
        """Statements over vectors, as one function of a lane."""
        for copy in [s for s in statements if s.name in self.packed]:
            self.put(f"{copy.name} = {copied(copy)}", copy.ops)
        statements = [s for s in statements if s.name not in self.packed]
        lines, inputs, outputs = [], dict[str, None](), dict[str, None]()
        own: dict[str, int] = {}
        for statement in statements:
            for name in reads(statement):
                own[name] = own.get(name, 0) + 1
        written: set[str] = set()
        ops = dict.fromkeys(op for statement in statements for op in statement.ops)
        for statement in statements:
            for name in self._named(statement):
                if name not in written:
                    inputs[name] = None
            lines += [(text + self.note_of(statement.ops), statement.ops) for text in self.one(statement)]
            target = self._targets(statement)
            written.update(target)
            if isinstance(statement, Accumulate) or self.readers[statement.name] > own.get(statement.name, 0):
                outputs.update(dict.fromkeys(target))
        if not outputs:
            return
        if all(_COPY.fullmatch(text.split("  # ")[0]) for text, _ in lines):
            for text, op in lines:
                target, _, source = text.partition(" = ")
                self.put(f"{target} = {self.unpacked(source)}" if source in self.packed else text, op)
            return
        if not self.vectors_in(inputs):
            inputs[LANES] = None
        self.needs_lanes |= LANES in inputs
        made = Run(tuple(lines), tuple(inputs), tuple(outputs), tuple(ops))
        given = ", ".join(self.unpacked(name, again=True) for name in inputs)
        call = f"each_lane({self.functions.name_of(made)}, ({given}{',' if len(inputs) == 1 else ''}))"
        self.commented(f"{', '.join(outputs)} = {call}", tuple(ops))

    def _named(self, statement: Lanewise) -> list[str]:
        """The printed names that a statement reads."""
        match statement:
            case Assign(value=value):
                return list(expr_reads(value))
            case Test():
                return list(dict.fromkeys(reads(statement)))
            case Finish(of=of, fold=fold, lanes=lanes):
                held = self.accumulator(of, lanes)
                return [self.position_of(held) if fold.is_arg else held]
            case Accumulate(name, fold, value, _, _, position, lanes, _, _, mask):
                held = self.accumulator(name, lanes)
                pair = [held, self.position_of(held)] if fold.is_arg else [held]
                return [*pair, value, *names_in(position or Form()), *([mask] if mask else [])]

    def _targets(self, statement: Lanewise) -> list[str]:
        if not isinstance(statement, Accumulate):
            return [statement.name]
        held = self.accumulator(statement.name, statement.lanes)
        return [held, self.position_of(held)] if statement.fold.is_arg else [held]


def _kind(statement: Statement) -> str:
    if isinstance(statement, Combine) and statement.over in ("blocks", "grid"):
        return "blocks"
    return "lanes" if is_lanewise(statement) else "one"
