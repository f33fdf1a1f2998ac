"""Loads and stores of CUDA kernels, and the positions that they are at.

The lanes of a vector are one access of up to 16 bytes where they are neighbours and aligned, else one access each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fusekit.dtypes import BF16, DType
from fusekit.ids import NodeId
from fusekit.index import Div, Form, Mod, Var, substitute
from fusekit.ir import Graph
from fusekit.lower import scalars
from fusekit.lower.packed import packed
from fusekit.lower.print_threads import part_of
from fusekit.lower.printing import WIDTH, Printer, clamped, ends
from fusekit.lower.program import Assign, Load, Program, Store, Test, TileLoad, TileStore
from fusekit.lower.uses import names_in, walk

WIDEST = 16  # bytes of one access


class AccessPrinter(Printer):
    """``lane_names``: the names of vectors; ``inside``: how names in a position are spelled at the lane in hand."""

    def __init__(self, graph: Graph, program: Program, vectors: bool, values: Collection[str], exact: bool = True):
        super().__init__(graph)
        self.exact = exact
        self.program, self.vectors, self.values = program, vectors, values
        self.count = program.lanes.extent if program.lanes else 1
        statements = list(walk(program.body))
        self.lane_names = {s.name for s in statements if isinstance(s, Load | Assign | Test | TileLoad) and s.lanes}
        self.inside: dict[str, str] = {}
        loads = [s for s in statements if isinstance(s, Load) and s.lanes]
        self.packed = packed(program, [s.name for s in loads if self.is_packable(s)])

    def vectors_in(self, names: Iterable[str]) -> bool:
        return any(name in self.lane_names for name in names)

    def repeated(self, text: str) -> str:
        return f"repeat_lanes({text}, {self.count})"

    # ---- positions: 64 bits, with 32-bit division where neither operand can be negative or large

    def form(self, form: Form) -> str:
        out = ""
        for atom, c in form.terms:
            text = self._atom(atom)
            part = text if abs(c) == 1 else f"{abs(c)}*{text}"
            out += (" - " if c < 0 else " + ") + part if out else ("-" if c < 0 else "") + part
        if not out:
            return str(form.const)
        return f"{out} {'-' if form.const < 0 else '+'} {abs(form.const)}" if form.const else out

    def _atom(self, atom: Var | Div | Mod) -> str:
        if isinstance(atom, Var):
            return self.inside.get(atom.name, atom.name)
        low, high = atom.of.bounds
        sign = "//" if isinstance(atom, Div) else "%"
        if low >= 0 and high < 1 << 32 and atom.by < 1 << 32:
            return f"{'div_u32' if sign == '//' else 'mod_u32'}({self.form(atom.of)}, {atom.by})"
        return f"(({self.form(atom.of)}){sign}{atom.by})"

    # ---- memory

    def chunk(self, address: Form, width: int, *, unit: int) -> int:
        """Elements of one access: the most that are one aligned vector. ``unit``: step of neighbours in the address."""
        lanes = self.program.lanes
        if lanes is None or not self.vectors or self.vectors_in(names_in(address)):
            return 1
        if address.coefficient(lanes) != unit:
            return 1
        rest = address - Form.of(lanes) * unit
        count = WIDEST // width
        while count > 1 and (self.count % count or not rest.is_divisible(unit * count)):
            count //= 2
        return count

    def at_lane(self, form: Form, lane: int) -> tuple[Form, dict[str, str]]:
        """The form at a lane, and how vectors in it are spelled there."""
        lanes = self.program.lanes
        names = {name: f"{name}[{lane}]" for name in names_in(form) if name in self.lane_names}
        return (substitute(form, {lanes: Form.of(lane)}) if lanes else form), names

    def pieces(self, address: Form, count: int) -> Iterable[tuple[int, Form]]:
        """(first lane, address) of every access."""
        for lane in range(0, self.count, count):
            form, self.inside = self.at_lane(address, lane)
            yield lane, form
        self.inside = {}

    def is_packable(self, load: Load) -> bool:
        """Is every access of it an aligned vector?"""
        width = load.dtype.width
        count = self.chunk(load.address, width, unit=width)
        return count > 1 and not (load.clamp and any(edge % (count * width) for edge in load.clamp))

    def unpacked(self, name: str, again: bool = False) -> str:
        """A vector with its elements in registers of their own."""
        if name not in self.packed:
            return name
        return f"unpack_lanes_{self.packed[name]}{'_again' if again else ''}({name})"

    def rounding(self, dtype: DType) -> str:
        """What a store's name says of a register that is rounded already."""
        return "exact_" if self.exact and dtype is BF16 else ""

    def load(self, load: Load) -> None:
        width, lanes = load.dtype.width, self.program.lanes
        count = self.chunk(load.address, width, unit=width) if load.lanes else 1
        # Vectors lie wholly in a tensor or wholly outside, unless its ends are no ends of vectors.
        ragged = load.clamp and count > 1 and any(edge % (count * width) for edge in load.clamp)
        varies = lanes in load.address.free or self.vectors_in(names_in(load.address))
        whole = load.address if load.lanes and varies else None

        def one(address: Form) -> str:
            if load.memory in self.values:
                return scalars.parameter(load.memory, 0 if load.dtype.is_integral else 0.0, load.dtype)
            base, at = self.element(load.memory, address, load.dtype)
            if load.clamp and ragged:
                first, last = ends(address, load.clamp, width)
                return f"load_within_{_tail(load.dtype, count)}({base}, {at}, {first}, {last})"
            if load.clamp:
                at = clamped(at, address, load.clamp, width, count)
            space = "packed_" if load.name in self.packed else ""
            return f"load_{space}{_tail(load.dtype, count)}({base}, {at})"

        if whole is None:
            text = one(load.address)
            self.put(f"{load.name} = {text}", load.ops)
            if load.lanes:
                self.put(f"{load.name} = {self.repeated(load.name)}", load.ops)
            return
        self._vector(load.name, [one(form) for _, form in self.pieces(whole, count)], count, load)

    def _vector(self, name: str, texts: list[str], count: int, statement: Load | TileLoad) -> None:
        """A vector of accesses of ``count`` elements each."""
        ops = statement.ops if isinstance(statement, Load) else ()
        if count == self.count > 1:
            self.put(f"{name} = {texts[0]}", ops)
        elif count > 1:
            self._list(f"{name} = (", texts, " + ", ")", ops)
        else:
            self._list(f"{name} = (", texts, ", ", ")", ops)

    def _list(self, head: str, texts: list[str], between: str, tail: str, ops: tuple[NodeId, ...]) -> None:
        line = head + between.join(texts) + tail
        if len(line) + 4 * self.indent <= WIDTH:
            self.put(line, ops)
            return
        self.put(head, ops)
        for k, text in enumerate(texts):
            self.put(f"    {text}{between.rstrip() if k + 1 < len(texts) else tail[:-1]}", ops)
        self.put(")")

    def store(self, store: Store) -> None:
        count = self.chunk(store.address, store.dtype.width, unit=store.dtype.width) if store.lanes else 1
        if not store.lanes:
            base, at = self.element(store.memory, store.address, store.dtype)
            self.put(f"store_{self.rounding(store.dtype)}{store.dtype}({base}, {at}, {store.value})", store.ops)
            return
        for lane, form in self.pieces(store.address, count):
            base, at = self.element(store.memory, form, store.dtype)
            value = part_of(self.unpacked(store.value), lane, count, self.count)
            tail = self.rounding(store.dtype) + _tail(store.dtype, count)
            if store.mask is None:
                self.put(f"store_{tail}({base}, {at}, {value})", store.ops)
            elif count > 1:
                mask = part_of(store.mask, lane, count, self.count)
                self.put(f"store_masked_{tail}({base}, {at}, {value}, {mask})", store.ops)
            else:
                self.put(f"if {store.mask}[{lane}]:", store.ops)
                self.put(f"    store_{tail}({base}, {at}, {value})", store.ops)

    def tile_load(self, load: TileLoad) -> None:
        count = self.chunk(load.at, load.dtype.width, unit=1) if load.lanes else 1
        if not load.lanes:
            self.put(f"{load.name} = load_shared_{load.dtype}({load.tile}, {self.form(load.at)})")
            return
        word = f"load_shared_{_tail(load.dtype, count)}"
        texts = [f"{word}({load.tile}, {self.form(form)})" for _, form in self.pieces(load.at, count)]
        self._vector(load.name, texts, count, load)

    def tile_store(self, store: TileStore) -> None:
        if not store.lanes:
            word = f"store_shared_{self.rounding(store.dtype)}{store.dtype}"
            self.put(f"{word}({store.tile}, {self.form(store.at)}, {store.value})")
            return
        count = self.chunk(store.at, store.dtype.width, unit=1)
        word = f"store_shared_{self.rounding(store.dtype)}{_tail(store.dtype, count)}"
        value = self.unpacked(store.value)
        for lane, form in self.pieces(store.at, count):
            self.put(f"{word}({store.tile}, {self.form(form)}, {part_of(value, lane, count, self.count)})")


def _tail(dtype: DType, count: int) -> str:
    return f"{dtype}x{count}" if count > 1 else str(dtype)
