"""Texts of reductions across the threads of a block and across the blocks of a grid.

Threads along x: shuffles inside a warp, then one slot of shared memory, where their number is a power of two.
Everything else goes through shared memory, one thread after the other. Blocks leave partial results in scratch memory,
and the last one to come reads them all, in a fixed order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fusekit.dtypes import I32, I64, DType
from fusekit.ir import Parallel
from fusekit.lower import scalars
from fusekit.lower.folds import ARG, WORDS, carried, joined
from fusekit.lower.print_lanes import Run
from fusekit.lower.program import Combine, Deliver, Fold, Hold, LaunchAxis, Program
from fusekit.lower.uses import walk

if TYPE_CHECKING:
    from fusekit.lower.print_folds import FoldPrinter

WARP = 32
WIDEST = 16
WORDS_OF_A_BARRIER = 3


@dataclass(frozen=True, slots=True)
class Scratch:
    """What blocks share: bytes of partial results, and 32-bit counters. ``together``: do all blocks wait for one
    another, so that all must be on the device at once?"""

    partials: int = 0
    counters: int = 0
    together: bool = False


@dataclass(frozen=True, slots=True)
class Vector:
    """An accumulator as printed: its name, the position beside an extreme, lanes (0 for a scalar)."""

    name: str
    at: str | None
    lanes: int
    dtype: DType

    @property
    def parts(self) -> list[tuple[str, DType]]:
        """(name, dtype in memory) of what has to travel."""
        return [(self.name, carried(self.dtype)), *([(self.at, I64)] if self.at else [])]


def linear(axes: Sequence[LaunchAxis], names: Mapping[str, str] | None = None) -> tuple[str, int]:
    """(text of the number among the axes' threads or blocks with x fastest, how many there are).

    ``names``: what stands in place of an index.
    """
    terms, total = list[str](), 1
    for axis in sorted(axes, key=lambda axis: axis.parallel.name):
        name = (names or {}).get(axis.var.name, axis.var.name)
        terms.append(name if total == 1 else f"{total}*{name}")
        total *= max(axis.var.extent, 1)  # of no element, one block is launched: a fold stores its identity
    return " + ".join(terms) or "0", total


def part_of(vector: str, lane: int, count: int, lanes: int) -> str:
    """``count`` lanes of a vector of ``lanes``, from ``lane`` on."""
    if count == lanes:
        return vector
    return f"{vector}[{lane}]" if count == 1 else f"{vector}[{lane}:{lane + count}]"


def times(k: int, text: str) -> str:
    """``k`` times a sum."""
    return f"{k}*({text})" if " " in text else text if k == 1 else f"{k}*{text}"


def _plus(k: int) -> str:
    return f" + {k}" if k else ""


@dataclass(frozen=True)
class Grid:
    """One combine over blocks: the axes of the grid that it folds and those that it keeps, and the threads of a block
    that have results of their own (``shared``: the others, which had parts of the same result, or the same)."""

    folded: tuple[LaunchAxis, ...]
    kept: tuple[LaunchAxis, ...]
    threads: tuple[LaunchAxis, ...]
    shared: tuple[LaunchAxis, ...]
    lanes: int

    @staticmethod
    def of(program: Program, combine: Combine) -> Grid:
        before = (s for s in walk(program.body) if isinstance(s, Combine) and s.over == "threads")
        shared = (*next((s.axes for s in before if s.name == combine.name), ()), *combine.alike)
        kept = tuple(a for a in program.axes if a.parallel.is_block and a not in combine.axes)
        threads = tuple(a for a in program.axes if a.parallel.is_thread and a not in shared)
        lanes = program.lanes.extent if combine.lanes and program.lanes else 0
        return Grid(combine.axes, kept, threads, shared, lanes)

    @property
    def results(self) -> int:
        """Partial results in all: every block of the grid has one for each thread and lane."""
        return linear(self.folded)[1] * linear(self.kept)[1] * linear(self.threads)[1] * max(self.lanes, 1)

    def place(self, block: str) -> str:
        """The number of a thread's vector in scratch memory; ``block``: of the block among those that are folded.

        No two threads of a grid have the same one, also where a bound keeps them from having an element.
        """
        (thread, threads), (kept, _), (_, blocks) = map(linear, (self.threads, self.kept, self.folded))
        number = block if kept == "0" else f"{block} + {times(blocks, kept)}"
        return times(threads, number) if thread == "0" else f"{thread} + {times(threads, number)}"


def scratch_of(program: Program) -> Scratch:
    """What the program's combines over blocks need, or its stores that wait for all blocks."""
    if holds := [s for s in program.body if isinstance(s, Hold)]:
        return Scratch(_room_of(holds)[-1], 1)
    combines = across_blocks(program)
    if not combines:
        return Scratch()
    size = _starts(program, combines)[-1]
    if combines[0].over == "grid":
        return Scratch(size, WORDS_OF_A_BARRIER * len(combines), True)
    return Scratch(size, linear(Grid.of(program, combines[0]).kept)[1])


def across_blocks(program: Program) -> list[Combine]:
    """The program's combines over blocks; all of one kind."""
    return [s for s in walk(program.body) if isinstance(s, Combine) and s.over in ("blocks", "grid")]


def _starts(program: Program, combines: Sequence[Combine]) -> list[int]:
    """Where the partial results of each begin, in bytes; the last number is the end."""
    starts = [0]
    for combine in combines:
        results = Grid.of(program, combine).results
        parts = [carried(combine.dtype), *([I64] if combine.fold.is_arg else [])]
        starts.append(starts[-1] + sum(_padded(results * part.width) for part in parts))
    return starts


def _room_of(holds: Sequence[Hold]) -> list[int]:
    """Where each has its bytes in scratch memory, as far from a multiple of 16 as at home; then the end."""
    starts = [0]
    for hold in holds:
        starts.append(starts[-1] + _padded(hold.size + WIDEST))
    return starts


def _padded(size: int) -> int:
    return (size + WIDEST - 1) // WIDEST * WIDEST


@dataclass
class Threads:
    """Prints the combines of one program."""

    printer: FoldPrinter

    @property
    def block(self) -> list[LaunchAxis]:
        return [axis for axis in self.printer.program.axes if axis.parallel.is_thread]

    # ---- threads of a block

    def combined(self, combine: Combine) -> list[str]:
        """The lines that give every thread the whole along the axes."""
        return self._across(self.printer.held_in(combine), combine.fold, list(combine.axes))

    def _across(self, held: Vector, fold: Fold, axes: list[LaunchAxis]) -> list[str]:
        lines: list[str] = []
        x = next((axis for axis in axes if axis.parallel is Parallel.TIDx), None)
        if x is not None and (made := self._shuffled(held, fold, x.var.extent)) is not None:
            lines += made
            axes = [axis for axis in axes if axis is not x]
        return lines + (self._through_memory(held, fold, axes) if axes else [])

    def _shuffled(self, held: Vector, fold: Fold, threads: int) -> list[str] | None:
        """The threads along x by shuffles; None where they cannot be."""
        narrow = held.dtype.width < 4 and not held.dtype.is_floating
        if threads & (threads - 1) or (held.lanes and (narrow or fold.is_arg)) or (narrow and fold.is_arg):
            return None
        if fold.is_arg:
            return self._pair_shuffled(held, fold, threads)
        value = f"np.int32({held.name})" if narrow else held.name
        if threads <= WARP:
            text = f"warp_{WORDS[fold]}({value}, {threads})"
        else:
            text = f"block_{WORDS[fold]}({value}, {self._row_slot(8 * WARP * max(held.lanes, 1))}, {threads})"
        return [f"{held.name} = {scalars.convert(text, I32, held.dtype) if narrow else text}"]

    def _row_slot(self, size: int) -> str:
        """Shared memory for each row of threads along x, as an address."""
        row, rows = linear([axis for axis in self.block if axis.parallel is not Parallel.TIDx])
        slot = f"shared_memory({size * rows})"
        return slot if rows == 1 else f"{slot} + {times(size, row)}"

    def _pair_shuffled(self, held: Vector, fold: Fold, threads: int) -> list[str]:
        self.printer.pairs(fold)
        lines = self._butterfly(held, fold, min(threads, WARP))
        if threads <= WARP:
            return lines
        slot, warps, tx = self.printer.fresh("slot"), threads // WARP, self._x()
        lines.append(f"{slot} = {self._row_slot(16 * warps)}")
        places = [(name, dtype, f"{slot}{_plus(8 * warps * k)}") for k, (name, dtype) in enumerate(held.parts)]
        lines += [f"store_shared_{dtype}({base}, div_u32({tx}, {WARP}), {name})" for name, dtype, base in places]
        lines.append("sync_threads()")
        lines += [f"{name} = load_shared_{dtype}({base}, mod_u32({tx}, {warps}))" for name, dtype, base in places]
        return lines + self._butterfly(held, fold, warps)

    def _x(self) -> str:
        return next(axis.var.name for axis in self.block if axis.parallel is Parallel.TIDx)

    def _butterfly(self, held: Vector, fold: Fold, width: int) -> list[str]:
        steps = [width >> k for k in range(1, width.bit_length())]
        join = f"{held.name}, {held.at} = {ARG[fold]}({held.name}, {held.at}"
        return [f"{join}, shuffle_xor({held.name}, {step}), shuffle_xor({held.at}, {step}))" for step in steps]

    def _through_memory(self, held: Vector, fold: Fold, axes: list[LaunchAxis]) -> list[str]:
        """Every thread leaves what it has, and folds what those along the axes left."""
        mine, total = linear(self.block)
        slots = [(self.printer.fresh("slot"), *part) for part in held.parts]
        lines = [f"{s} = shared_memory({total * max(held.lanes, 1) * dtype.width})" for s, _, dtype in slots]
        for slot, name, dtype in slots:
            lines += self._stores("store_shared", slot, mine, name, dtype, held.lanes)
        lines += ["sync_threads()", *self._start(held, fold)]
        counters = {axis.var.name: self.printer.fresh(f"k{axis.var.name[-1]}") for axis in axes}
        other, _ = linear(self.block, counters)
        heads = [(counters[axis.var.name], axis.var.extent) for axis in axes]
        indent = "    " * len(heads)
        lines += [f"{'    ' * k}for {name} in range({extent}):" for k, (name, extent) in enumerate(heads)]
        loads = [self._loads("load_shared", slot, other, dtype, held.lanes) for slot, _, dtype in slots]
        return [*lines, indent + self._join(held, fold, loads)]

    # ---- lanes of a vector in memory

    def _pieces(self, dtype: DType, lanes: int) -> tuple[int, list[int]]:
        """(elements of an access, first lanes)."""
        count = WIDEST // dtype.width
        while max(lanes, 1) % count:
            count //= 2
        return count, list(range(0, max(lanes, 1), count))

    def _stores(self, word: str, base: str, at: str, name: str, dtype: DType, lanes: int) -> list[str]:
        if not lanes:
            return [f"{word}_{dtype}({base}, {at}, {name})"]
        count, firsts = self._pieces(dtype, lanes)
        tail = f"{dtype}x{count}" if count > 1 else str(dtype)
        parts = [part_of(name, k, count, lanes) for k in firsts]
        places = [f"{times(lanes, at)}{_plus(k)}" for k in firsts]
        return [f"{word}_{tail}({base}, {place}, {part})" for place, part in zip(places, parts, strict=True)]

    def _loads(self, word: str, base: str, at: str, dtype: DType, lanes: int) -> str:
        if not lanes:
            return f"{word}_{dtype}({base}, {at})"
        count, firsts = self._pieces(dtype, lanes)
        tail = f"{dtype}x{count}" if count > 1 else str(dtype)
        texts = [f"{word}_{tail}({base}, {times(lanes, at)}{_plus(k)})" for k in firsts]
        return " + ".join(texts) if count > 1 else f"({', '.join(texts)})"

    def _start(self, held: Vector, fold: Fold) -> list[str]:
        """The accumulator of no element, again."""
        return [
            f"{name} = {self.printer.repeated(text) if held.lanes else text}"
            for (name, _), text in zip(held.parts, (scalars.identity(fold, held.dtype), "np.int64(0)"), strict=False)
        ]

    def _join(self, held: Vector, fold: Fold, texts: Sequence[str]) -> str:
        """One more accumulator, given by the texts of its parts, is folded in."""
        if fold.is_arg:
            self.printer.pairs(fold)
            mine, one = f"{held.name}, {held.at}", f"x, x_at = {ARG[fold]}(x, x_at, y, y_at)"
            if not held.lanes:
                return f"{mine} = {ARG[fold]}({mine}, {', '.join(texts)})"
            run = Run(((one, ()),), ("x", "x_at", "y", "y_at"), ("x", "x_at"), ())
        else:
            mine = held.name
            if not held.lanes:
                return f"{mine} = {joined(fold, mine, texts[0])}"
            run = Run(((f"x = {joined(fold, 'x', 'y')}", ()),), ("x", "y"), ("x",), ())
        return f"{mine} = each_lane({self.printer.functions.name_of(run)}, ({mine}, {', '.join(texts)}))"

    # ---- blocks of a grid

    def finished(self, combines: Sequence[Combine]) -> list[str]:
        """Partial results to memory; the last block goes on with all of them and the others return, or all wait."""
        program = self.printer.program
        whole = across_blocks(program)
        number, starts = whole.index(combines[0]), _starts(program, whole)
        pairs = list(zip(combines, starts[number:], strict=False))
        lines = [line for combine, start in pairs for line in self._leave(combine, start)]
        if combines[0].over == "grid":
            _, blocks = linear([axis for axis in program.axes if axis.parallel.is_block])
            lines.append(f"sync_grid(counters{_plus(4 * WORDS_OF_A_BARRIER * number)}, {blocks})")
        else:
            grid = Grid.of(program, combines[0])
            kept, _ = linear(grid.kept)
            counter = "counters" if kept == "0" else f"counters + {times(4, kept)}"
            lines += [f"if not last_block({counter}, shared_memory(4), {linear(grid.folded)[1]}):", "    return"]
        return lines + [line for combine, start in pairs for line in self._gather(combine, start)]

    def _places(self, combine: Combine, start: int) -> list[tuple[str, str, DType]]:
        """(name, base, dtype) of what a block leaves."""
        results = Grid.of(self.printer.program, combine).results
        out: list[tuple[str, str, DType]] = []
        for name, dtype in self.printer.held_in(combine).parts:
            out.append((name, f"partials{_plus(start)}", dtype))
            start += _padded(results * dtype.width)
        return out

    def _leave(self, combine: Combine, start: int) -> list[str]:
        grid = Grid.of(self.printer.program, combine)
        at = grid.place(linear(grid.folded)[0])
        lines: list[str] = []
        for name, base, dtype in self._places(combine, start):
            lines += self._stores("store", base, at, name, dtype, grid.lanes)
        first = [f"{axis.var.name} == 0" for axis in grid.shared]
        return [f"if {' and '.join(first)}:", *(f"    {line}" for line in lines)] if first else lines

    def _gather(self, combine: Combine, start: int) -> list[str]:
        """The threads that had a part of one result share the partial results of the blocks."""
        held, fold, grid = self.printer.held_in(combine), combine.fold, Grid.of(self.printer.program, combine)
        (mine, step), (_, blocks) = linear(grid.shared), linear(grid.folded)
        k = self.printer.fresh("k")
        span = f"range({mine}, {blocks}, {step})" if grid.shared else f"range({blocks})"
        places = self._places(combine, start)
        loads = [self._loads("load", base, grid.place(k), dtype, grid.lanes) for _, base, dtype in places]
        lines = [*self._start(held, fold), f"for {k} in {span}:", f"    {self._join(held, fold, loads)}"]
        return lines + (self._across(held, fold, list(grid.shared)) if grid.shared else [])

    # ---- stores that wait for all blocks

    def held(self, statement: Hold | Deliver) -> list[str]:
        """The address under which stores wait; the last block moves what waits, the others return."""
        program = self.printer.program
        if isinstance(statement, Hold):
            holds = [s for s in program.body if isinstance(s, Hold)]
            start = _room_of(holds)[holds.index(statement)] + statement.first % WIDEST - statement.first
            place = f"partials {'-' if start < 0 else '+'} {abs(start)}" if start else "partials"
            return [f"{statement.name} = {place}  # bytes of {statement.memory} that wait until all loads are done"]
        blocks = [axis for axis in program.axes if axis.parallel.is_block]
        mine, step = linear(self.block)
        lines = [f"if not last_block(counters, shared_memory(4), {linear(blocks)[1]}):", "    return"]
        for one in statement.holds:
            k, width = self.printer.fresh("k"), one.dtype.width
            word = f"u{8 * width}"
            rest = f" + {one.first % width}" if one.first % width else ""
            to, wait = one.memory + rest, one.name + rest
            first, last = (edge // width for edge in (one.first, one.last))
            lines.append(f"for {k} in range({first} + {mine}, {last}, {step}):")
            lines.append(f"    store_{word}({to}, {k}, load_{word}({wait}, {k}))")
        return lines
