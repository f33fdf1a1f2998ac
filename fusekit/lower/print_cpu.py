"""Loop-nest IR to Python source for Numba on the CPU. The very same source also runs as plain Python.

Every line is kept with the ops it computes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from fusekit.index import Form
from fusekit.ir import Graph
from fusekit.lower import scalars
from fusekit.lower.printing import Printer, Source, cases_text, clamped, import_from, source_of
from fusekit.lower.program import (
    Accumulate,
    Assign,
    Buffer,
    Combine,
    Deliver,
    Finish,
    Fold,
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
from fusekit.ops import functions

FOLDS = ("sum_any", "prod_any", "max_any", "min_any", "is_first_max", "is_first_min")
_ARM = r"([A-Za-z_]\w*|np\.\w+\([^()]*\))"
_CHOICE = re.compile(rf"{_ARM} if ([A-Za-z_]\w*) else {_ARM}")
_INFINITE = {"np.float32(-np.inf)": "minus_inf", "np.float32(np.inf)": "plus_inf"}
_MEMORY = ("unseen", *_INFINITE.values(), "snapshot", "scratch", "release", "no_room", "hold", "deliver")
RESERVED = frozenset({"np", "math", "prange", "where", *_MEMORY, *FOLDS, *functions()})


def print_cpu(program: Program, name: str, graph: Graph, notes: Iterable[str] = ()) -> Source:
    """The source of a program; ``notes`` become comments under the function's head."""
    printer = _Printer(graph)
    printer.indent = 1
    for note in notes:
        printer.put(f"# {note}")
    start = len(printer.lines)
    rooms = [s for s in program.body if isinstance(s, Snapshot | Hold | Buffer)]
    lead = next((k for k, s in enumerate(program.body) if isinstance(s, Snapshot | Hold)), _looked(program))
    printer.body(program.body[:lead])
    printer.allocate(rooms)
    printer.body([s for s in program.body[lead:] if s not in rooms])
    for literal, hidden in sorted(printer.infinite.items()):
        printer.lines.insert(start, (f"    {hidden} = unseen({literal})", ()))
    for room in (s for s in rooms if not isinstance(s, Hold)):  # what waits is given back where it is delivered
        printer.put(f"release({room.name}, {_first(room)})")
    if rooms or any(isinstance(s, Stop) for s in program.body):
        printer.put("return np.int64(0)")
    if not program.body:
        printer.put("pass")
    head = printer.imports()
    head += ["", "", f"def {name}({', '.join(param.name for param in program.params)}):"]
    return source_of(name, head, printer.lines)


Room = Snapshot | Hold | Buffer


def _first(room: Room) -> int:
    return 0 if isinstance(room, Buffer) else room.first


def _looked(program: Program) -> int:
    """How many statements look at indices, and may end the kernel."""
    return max((k + 1 for k, s in enumerate(program.body) if isinstance(s, Stop)), default=0)


@dataclass
class _Printer(Printer):
    parallel: bool = False
    kinds: dict[str, str] = field(default_factory=dict[str, str])  # scalar -> its numpy type
    infinite: dict[str, str] = field(default_factory=dict[str, str])  # literal -> the name that hides it from LLVM

    def imports(self) -> list[str]:
        out = ["import math", "", "import numpy as np"]
        if self.parallel:
            out.append("from numba import prange")
        out.append("")
        homes = {name: functions()[name].__module__ for name in self.helpers}
        out += [import_from(home, (n for n in homes if homes[n] == home)) for home in sorted(set(homes.values()))]
        if self.memory:
            out.append(import_from("fusekit.run.intrinsics", self.memory))
        return out

    # ---- statements

    def statement(self, statement: Statement) -> None:
        match statement:
            case Load():
                self.load(statement)
            case Assign(name, value, dtype, ops):
                self.commented(f"{name} = {self.chosen(self.expr(value))}", ops)
                self.kinds[name] = scalars.register(dtype)
            case Test(name, guards):
                self.put(f"{name} = {self.test(guards)}")
            case Store():
                self.store(statement)
            case Snapshot() | Hold() | Buffer():
                self.allocate([statement])
            case Deliver(holds):
                self.memory.add("deliver")
                for one in holds:
                    self.put(f"deliver({one.memory}, {one.name}, {one.first}, {one.last})")
            case If(cases, body):
                self.put(f"if {cases_text(cases)}:")
                self.nested(body)
            case For():
                self.loop(statement)
            case Init(name, fold, dtype, _, int() as count):
                self.put(f"{name} = np.empty({count}, {scalars.register(dtype)})")
                self.put(f"for k in range({count}):")
                self.put(f"    {name}[k] = {scalars.identity(fold, dtype)}")
            case Init(name, fold, dtype):
                self.put(f"{name} = {scalars.identity(fold, dtype)}")
                if fold.is_arg:
                    self.put(f"{name}_at = np.int64(0)")
            case Accumulate():
                self.accumulate(statement)
            case Finish(name, of, _, source, dtype, ops, _, Form() as at):
                self.commented(f"{name} = {scalars.convert(f'{of}[{self.number(at)}]', source, dtype)}", ops)
            case Finish(name, of, fold, source, dtype, ops):
                self.commented(f"{name} = {f'{of}_at' if fold.is_arg else scalars.convert(of, source, dtype)}", ops)
            case Tile(name, dtype, size):
                self.put(f"{name} = np.empty({size}, {scalars.register(dtype)})")
            case TileStore(tile, at, value):
                self.put(f"{tile}[{self.number(at)}] = {value}")
            case TileLoad(name, tile, at):
                self.put(f"{name} = {tile}[{self.number(at)}]")
            case Stop(name):
                self.put(f"if {name}:")
                self.put("    return np.int64(1)  # nothing is stored yet: the caller finds the index and raises")
            case Combine() | Sync():
                raise TypeError(f"a CPU has no {type(statement).__name__}")
            case _:
                assert_never(statement)

    def allocate(self, rooms: Sequence[Room]) -> None:
        """All memory of the kernel's own at once: where there is none, nothing has been stored."""
        for room in rooms:
            match room:
                case Snapshot(name, memory, first, last):
                    self.memory.add("snapshot")
                    self.put(f"{name} = snapshot({memory}, {first}, {last})  # as it was before the stores below")
                case Hold(name, memory, first, last):
                    self.memory.add("hold")
                    self.put(f"{name} = hold({first}, {last})  # bytes of {memory} that wait until all loads are done")
                case Buffer(name, size):
                    self.memory.add("scratch")
                    self.put(f"{name} = scratch({size})")
        if rooms:
            self.memory |= {"no_room", "release"}
            self.put(f"if {' or '.join(f'no_room({room.name}, {_first(room)})' for room in rooms)}:")
            for room in rooms:
                self.put(f"    release({room.name}, {_first(room)})")
            self.put("    return np.int64(2)  # nothing is stored yet: the caller raises what eager raises")

    def chosen(self, text: str) -> str:
        """A choice between two scalars that are there: without a branch, from which LLVM makes loops that are no
        vectors where what is chosen is folded next."""
        found = _CHOICE.fullmatch(text)
        if found is None:
            return text
        inside, test, outside = found.groups()
        arms = {self.kinds.get(arm, arm.partition("(")[0]) for arm in (inside, outside)}
        if self.kinds.get(test) != "np.bool_" or len(arms) > 1 or not min(arms).startswith("np."):
            return text
        for arm in {inside, outside} & _INFINITE.keys():
            self.infinite[arm] = _INFINITE[arm]
            self.memory.add("unseen")
        return self.select(test, *(_INFINITE.get(arm, arm) for arm in (inside, outside)))

    def loop(self, loop: For) -> None:
        n, name = str(loop.var.extent), loop.var.name
        if loop.stop is not None:
            n = f"min({n}, {self.form(loop.stop)})" if loop.stop.terms else str(min(loop.var.extent, loop.stop.const))
        if loop.parallel:
            self.parallel = True
            self.put(f"for k{name[1:]} in prange({n}):")
            self.indent += 1
            self.put(
                f"{name} = np.int64(k{name[1:]})"
            )  # Numba counts a prange in uint64, and uint64 + int64 is float64
            self.indent -= 1
        else:
            last = str(loop.var.extent - 1) if loop.stop is None else f"{n} - 1"
            self.put(f"for {name} in {f'range({last}, -1, -1)' if loop.reverse else f'range({n})'}:")
        self.nested(loop.body)

    def load(self, load: Load) -> None:
        held = scalars.held(load.dtype)
        self.memory.add(f"load_{held}")
        base, at = self.element(load.memory, load.address, load.dtype)
        if load.clamp:
            at = clamped(at, load.address, load.clamp, load.dtype.width)
        self.kinds[load.name] = scalars.register(load.dtype)
        self.put(f"{load.name} = {scalars.unpack(f'load_{held}({base}, {at})', load.dtype)}", load.ops)

    def store(self, store: Store) -> None:
        held = scalars.held(store.dtype)
        self.memory.add(f"store_{held}")
        base, at = self.element(store.memory, store.address, store.dtype)
        self.put(f"store_{held}({base}, {at}, {scalars.pack(store.value, store.dtype)})", store.ops)

    def accumulate(self, one: Accumulate) -> None:
        name, value = one.name, scalars.convert(one.value, one.source, one.dtype)
        if one.fold.is_arg:
            word = "is_first_max" if one.fold is Fold.ARGMAX else "is_first_min"
            at = self.form(one.position) if one.position is not None else "0"
            self.memory |= {word, "where"}
            self.put(f"{name}_new = {word}({value}, {at}, {name}, {name}_at)", one.ops)
            self.put(f"{name} = where({name}_new, {value}, {name})", one.ops)
            self.put(f"{name}_at = where({name}_new, np.int64({at}), {name}_at)", one.ops)
            return
        if one.at is not None:
            name = f"{name}[{self.number(one.at)}]"
        text = scalars.folded(one.fold, name, value, one.dtype)
        self.memory |= {word for word in FOLDS if text.startswith(word)}
        self.commented(f"{name} = {text}", one.ops)

    def number(self, at: Form) -> str:
        """An index of an array: unsigned, since Numba looks whether a signed one counts from the end."""
        return f"np.uint64({self.form(at)})"

    def select(self, test: str, inside: str, outside: str) -> str:
        self.memory.add("where")
        return f"where({test}, {inside}, {outside})"
