"""Accumulators in the text of a CUDA kernel: their names, their start, and how lanes and threads join theirs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fusekit.ir import Graph
from fusekit.lower import scalars
from fusekit.lower.folds import ARG, arg_function
from fusekit.lower.print_access import AccessPrinter
from fusekit.lower.print_lanes import Functions
from fusekit.lower.print_threads import Threads, Vector
from fusekit.lower.program import Combine, Fold, Init, Program
from fusekit.lower.uses import made, walk


class FoldPrinter(AccessPrinter):
    """``taken``: names that no new one may have; ``loops``: how many serial loops are open."""

    def __init__(
        self,
        graph: Graph,
        program: Program,
        vectors: bool,
        values: Collection[str],
        exact: bool,
        reserved: Collection[str],
    ):
        super().__init__(graph, program, vectors, values, exact)
        self.taken = {name for s in walk(program.body) if (name := made(s)) is not None} | set(reserved)
        self.taken |= {param.name for param in program.params}
        self.functions = Functions(graph, self.fresh)
        self.threads = Threads(self)
        self.folds: set[Fold] = set()
        self.derived: dict[tuple[str, str], str] = {}
        self.loops = 0

    def fresh(self, wanted: str) -> str:
        name, count = wanted, 0
        while name in self.taken:
            count += 1
            name = f"{wanted}_{count}"
        self.taken.add(name)
        return name

    def accumulator(self, name: str, lanes: bool) -> str:
        """The printed name of an accumulator: while it is a vector it has another one than as a scalar."""
        return self._derived(name, "lanes") if lanes else name

    def position_of(self, accumulator: str) -> str:
        """The printed name of the position beside an extreme."""
        return self._derived(accumulator, "at")

    def _derived(self, name: str, suffix: str) -> str:
        key = name, suffix
        if key not in self.derived:
            self.derived[key] = self.fresh(f"{name}_{suffix}")
            if suffix == "lanes" or name in self.lane_names:
                self.lane_names.add(self.derived[key])
        return self.derived[key]

    def held_in(self, combine: Combine) -> Vector:
        """The accumulator that a combine works on."""
        name = self.accumulator(combine.name, combine.lanes)
        at = self.position_of(name) if combine.fold.is_arg else None
        return Vector(name, at, self.count if combine.lanes else 0, combine.dtype)

    def pairs(self, fold: Fold) -> None:
        """The function that joins pairs, once."""
        if fold not in self.folds:
            self.folds.add(fold)
            self.functions.add((text, ()) for text in arg_function(fold))

    def init(self, init: Init) -> None:
        name = self.accumulator(init.name, init.lanes)
        text = scalars.identity(init.fold, init.dtype)
        self.put(f"{name} = {self.repeated(text) if init.lanes else text}")
        if init.fold.is_arg:
            at = "np.int64(0)"
            self.put(f"{self.position_of(name)} = {self.repeated(at) if init.lanes else at}")

    def combine(self, combine: Combine) -> None:
        if combine.over == "lanes":
            self.across_lanes(combine)
            return
        if self.loops:
            self.put("sync_threads()")  # the slot may still be read
        for text in self.threads.combined(combine):
            self.put(text)

    def across_lanes(self, combine: Combine) -> None:
        name, vector = combine.name, self.accumulator(combine.name, True)
        match combine.fold:
            case Fold.SUM | Fold.PROD | Fold.MAX | Fold.MIN:
                self.put(f"{name} = {combine.fold.value}_lanes({vector})")
            case Fold.ANY | Fold.ALL:
                sign = " | " if combine.fold is Fold.ANY else " & "
                self.put(f"{name} = {sign.join(f'{vector}[{k}]' for k in range(self.count))}")
            case _:
                self.pairs(combine.fold)
                at, both = self.position_of(name), self.position_of(vector)
                self.put(f"{name}, {at} = {vector}[0], {both}[0]")
                for k in range(1, self.count):
                    self.put(f"{name}, {at} = {ARG[combine.fold]}({name}, {at}, {vector}[{k}], {both}[{k}])")

    def across_blocks(self, combines: Sequence[Combine]) -> None:
        for text in self.threads.finished(combines):
            self.put(text)
