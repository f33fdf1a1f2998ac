"""functionalize: in-place writes become values; memory is written where the program's end or a library call needs it.

Walks the program once. Every fusable op becomes pure values over loads of live-in memory (``fusekit.passes.versions``
has the rules of resolution); views vanish, since a view is only a layout; what has no fusable form stays as a library
call on real memory, preceded by a flush of the blocks that it touches. Before and after::

    ^1 %a.1 = aten.exp_.default(%a) writes 0          ^load %a.load = fk.load(%a)
    ^2 %b.1 = aten.tanh_.default(%b) writes 0    ->   ^1 %exp = aten.exp.default(%a.load)
                                                      ^store = fk.store(%exp.1, %a) writes 1 ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fusekit import dtypes, ops
from fusekit.ids import NodeId
from fusekit.ir import FUNCTIONAL, PROGRAM, Graph, Invariant, Layout, Operand, PassResult, core, is_tuple
from fusekit.memory import Item, goes_at_once, meets, nested, rows_meet
from fusekit.ops.extern import raises_on_data
from fusekit.passes import cost
from fusekit.passes.base import is_metadata, is_view, tensors_of
from fusekit.passes.build import broadcast
from fusekit.passes.call import Call, Write
from fusekit.passes.decompositions import DECOMPOSITIONS
from fusekit.passes.emit import Emitter
from fusekit.passes.lookups import Check, Step
from fusekit.passes.movement import RULES
from fusekit.passes.values import InMemory, Value, Values
from fusekit.passes.versions import Memory
from fusekit.why import Reason

CUT = "fusekit.cut.default"
FUSABLE = frozenset(
    {
        *(dtypes.BOOL, dtypes.U8, dtypes.I8, dtypes.I16, dtypes.I32, dtypes.I64),
        *(dtypes.F16, dtypes.BF16, dtypes.F32, dtypes.F64),
    }
)


@dataclass(frozen=True)
class Functionalize:
    """The pass. ``opaque``: blocks whose ops run one by one on real memory (the generic plan).

    ``reduce``: reductions, norms, losses and look-ups by an index tensor become values too. ``exact``: False takes
    layouts whose byte ranges cross for overlapping, and sends memory what any access of another layout may meet.
    """

    name: ClassVar[str] = "functionalize"
    expects: ClassVar[tuple[Invariant, ...]] = PROGRAM
    ensures: ClassVar[tuple[Invariant, ...]] = FUNCTIONAL
    opaque: frozenset[NodeId] = frozenset()
    reduce: bool = True
    exact: bool = True

    def __call__(self, graph: Graph) -> PassResult:
        work = _Walk(graph, self)
        for work.now, op in enumerate(graph.ops()):
            if not isinstance(graph.what(op), core.Input | core.Return):
                work.step(op)
        work.now = len(graph.ops())
        work.memory.flush(work.kept, Reason.of("flush-end"), through=work.outputs())
        return work.emitter.finish(self.ensures)


class _Walk:
    """One run of the pass over one graph."""

    def __init__(self, graph: Graph, options: Functionalize):
        self.graph, self.options, self.now = graph, options, 0
        self.values = Values()
        self.emitter = Emitter(graph, options.name, options.exact)
        self._called: set[NodeId] = set()  # blocks that library calls made
        self.memory = Memory(self.values, self._is_alive, self.emitter.flush, self._is_unset)
        outputs = {graph.block_of(t) for t in graph.outputs()}
        self.kept = [b for b in graph.blocks() if b in outputs or graph.block(b).kind != "fresh"]
        self._kept = frozenset(self.kept)
        self.seen = [b for b in self.kept if graph.block(b).kind != "fresh"]  # what outlives an error
        self._last_use = {
            block: k
            for k, op in enumerate(graph.ops())
            for t in (*graph.operands(op), *graph.results(op))
            if (block := graph.block_of(t)) is not None
        }
        self._mark = 0  # values made before the last cut for the budget

    def _is_alive(self, block: NodeId) -> bool:
        return block in self._kept or self._last_use.get(block, -1) >= self.now

    def _is_unset(self, block: NodeId) -> bool:
        return self.graph.block(block).kind == "fresh" and block not in self._called

    def outputs(self) -> dict[NodeId, list[Layout]]:
        """The layouts of outputs in memory that the program makes: each is stored through its own, over its own space.

        (What ``output-aliases`` then does better.) An argument is written in the space of the write.
        """
        found: dict[NodeId, list[Layout]] = {}
        for tensor in self.graph.outputs():
            block = self.graph.block_of(tensor)
            if block is not None and self.graph.block(block).kind == "fresh":
                found.setdefault(block, []).append(self.graph.layout(tensor))
        return found

    def step(self, op: NodeId) -> None:
        """One op of the program."""
        self.values.current = op
        if self.graph.op(op).target == CUT:
            blocks = [b for t in self.graph.operands(op) if (b := self.graph.block_of(t)) is not None]
            origin = self.graph.op(op).origin
            where = f" at {origin.short}" if origin else ""
            self.memory.flush(blocks, Reason.of("flush-cut", where=where))
            return
        if is_view(self.graph, op) or is_metadata(self.graph.op(op)):
            self.emitter.draft.note((op,), Reason.of("only-views"))
            return
        call = Call(self.graph, op, self.graph.op(op), self.graph.operands(op), self.graph.results(op))
        writes = self._writes(call)
        if isinstance(writes, Reason):
            self._extern(call, writes)
            return
        if not self.options.exact:
            self._bar([write for write in writes if isinstance(write, Write)])
        for write in writes:
            if isinstance(write, Check):
                self._check(call, write)
            else:
                self._perform(write)
        if call.op.writes:
            self.emitter.draft.note((op,), Reason.of("write-became-value"))

    # ---- fused ops

    def _writes(self, call: Call) -> tuple[Step, ...] | Reason:
        """The op as writes of pure values, or why it stays a library call."""
        tensors = (*call.operands, *call.results)
        strange = next((self.graph.tensor(t).dtype for t in tensors if self.graph.tensor(t).dtype not in FUSABLE), None)
        if strange is not None:
            return Reason.of("library-call", because=f"{strange} has no kernels")
        if any(call.block(t) in self.options.opaque for t in tensors):
            return Reason.of("library-call", because="its memory has had too many overlap patterns")
        name = call.op.target.split(".")[1]
        targets = [call.operands[w] for w in call.op.writes] or list(call.results)
        is_one_value = name in ("fill_", "zero_")
        if not all(_is_writable(call.layout(t), is_one_value) for t in targets):
            return Reason.of("flush-accident")
        if name.startswith("_foreach_") and self._is_unordered(call):
            return Reason.of("flush-accident")
        whole = DECOMPOSITIONS.get(call.op.target.removeprefix("aten.")) if self.options.reduce else None
        if rule := RULES.get(name) or whole:
            found = rule(call) if not call.op.target.endswith("out") else None
            return found if found is not None else Reason.of("library-call", because=f"this form of {name} has no rule")
        return self._pointwise(call)

    def _pointwise(self, call: Call) -> tuple[Write, ...] | Reason:
        target = ops.functional(call.op.target) if call.op.writes else call.op.target
        if target is None or not ops.is_pointwise(target):
            return Reason.of("library-call", because=f"{call.op.target} is not in the table of fusable ops")
        written = call.operands[call.op.writes[0]] if call.op.writes else call.results[0]
        args, kwargs, reads = _without_out(call)
        if call.op.writes and self._is_accident(call, written, reads):
            return Reason.of("flush-accident")
        if target == "aten.copy.default":
            source = call.tensor(1, "src")
            assert source is not None
            return (Write(call.block(written), call.layout(written), (source,), lambda v, r, _: r[0]),)
        kinds = [ops.Kind(self.graph.tensor(t).dtype, not self.graph.tensor(t).shape, None) for t in reads]
        plan = ops.plan(target, args, kwargs, kinds)
        if isinstance(plan, ops.Refusal):
            return Reason.of("library-call", because=plan.reason)
        shape = broadcast([call.layout(t).shape for t in reads])

        def make(values: Values, reads: Sequence[Value], _: Layout) -> Value:
            return values.apply(target, args, kwargs, tuple(reads), shape, plan.result)

        return (Write(call.block(written), call.layout(written), tuple(reads), make),)

    def _bar(self, writes: Sequence[Write]) -> None:
        """Barriers in front of an op whose accesses cross the byte ranges of others; its own writes are one access."""
        hazards: set[NodeId] = set()
        for write in writes:
            hazards |= self.memory.near(write.block, write.region)
            for t in write.reads:
                maker = self.graph.producer(t) if self.graph.has_producer(t) else None
                block = self.graph.block_of(t)
                if block is not None and self.memory.is_near(block, self.graph.layout(t), maker):
                    hazards.add(block)
        self.memory.flush([b for b in self.graph.blocks() if b in hazards], Reason.of("flush-conservative"))

    def _check(self, call: Call, check: Check) -> None:
        """Eager raises at this op for a bad index. What it has written by then and a caller can see is written first.

        That is every pending write of a block that outlives an error: arguments and captures, not fresh memory; and
        the indices themselves, which are read where they lie. Later writes follow in the order of the program.
        """
        block, layout = call.block(check.index), call.layout(check.index)
        if self.memory.can_read(block, layout) and check.always_holds(self.memory.read(block, layout)):
            return
        self.memory.flush([*self.seen, block], Reason.of("flush-check"))
        self.emitter.check(check, call.id)

    def _is_accident(self, call: Call, written: NodeId, reads: list[NodeId]) -> bool:
        """Does eager's result depend on its own loop order: an operand that meets the target through another map?"""
        region = call.layout(written)
        return any(
            call.block(t) == call.block(written)
            and not call.layout(t).is_same_map(region)
            and meets(call.layout(t), region) is not False
            for t in reads
        )

    def _is_unordered(self, call: Call) -> bool:
        """Does an op on lists write, on a device that goes through the rows at once, what another row touches?"""
        items: list[Item] = []
        for value in call.op.args:
            for row, one in enumerate(value) if is_tuple(value) else ((-1, value),):
                if isinstance(one, Operand):
                    tensor = call.operands[one.position]
                    items.append(Item(row, call.block(tensor), call.layout(tensor), one.position in call.op.writes))
        written = (self.graph.block(call.block(call.operands[w])).device for w in call.op.writes)
        return any(map(goes_at_once, written)) and rows_meet(items)

    def _perform(self, write: Write) -> None:
        """All flushes of a write are decided before its operands are read: else an earlier read goes stale."""
        memory, places = self.memory, [(self.graph.block_of(t), self.graph.layout(t)) for t in write.reads]
        reads = [(block, layout) for block, layout in places if block is not None]
        if because := memory.room_for(write.block, write.region):
            memory.flush([write.block], because)
        closed = [block for block, layout in reads if not memory.can_read(block, layout)]
        if closed:
            memory.flush(closed, Reason.of("flush-no-relation"))
        value = self._value(write, reads)
        if because := self._heaviness(value):
            # The producers are cut, not this op: else every later op would be cut again.
            memory.flush([block for block, _ in reads], because)
            self._mark = len(self.values)
            value = self._value(write, reads)
        memory.write(write.block, write.region, value)

    def _value(self, write: Write, reads: list[tuple[NodeId, Layout]]) -> Value:
        operands = tuple(self.memory.read(block, layout) for block, layout in reads)
        self._explain_reads(write, operands)
        made = write.make(self.values, operands, write.region)
        return self.values.spread(self.values.cast(made, write.region.dtype), write.region.shape)

    def _explain_reads(self, write: Write, operands: tuple[Value, ...]) -> None:
        """Reads that another op's write answers: through an alias, whole or in part."""
        for place, value in zip(write.reads, operands, strict=True):
            made = value.operands[-1] if isinstance(value.what, core.Window | core.Overlay) else value
            named = self.graph.has_producer(place) and self.graph.producer(place)
            if made.of is None or isinstance(value.what, InMemory) or made.of == named or self.values.current is None:
                continue
            name = "read-composed" if isinstance(value.what, core.Overlay) else "read-forwarded"
            self.emitter.draft.note((self.values.current,), Reason.of(name, writer=made.of), (place,))

    def _heaviness(self, value: Value) -> Reason | None:
        """Why one loop body should not compute the value; None where it may."""
        if not value.maps and len(self.values) - self._mark <= cost.PULLS:
            return None
        found = cost.cost_of(value)
        if found.repeats > cost.REPEATS:
            return Reason.of("flush-repeats", times=found.repeats)
        return Reason.of("flush-budget", pulls=found.pulls) if found.pulls > cost.PULLS else None

    # ---- library calls

    def _extern(self, call: Call, because: Reason) -> None:
        written = {call.block(call.operands[w]) for w in call.op.writes}
        touched = [call.block(t) for t in call.operands]
        if raises_on_data(call.op.target):  # what eager has written by then stays written
            touched += self.seen
        reason = because if because.name == "flush-accident" else Reason.of("flush-library-call")
        self.memory.flush(touched, reason, written)
        self.emitter.extern(call.id, because)
        self._called.update(call.block(t) for t in call.results)


def _is_writable(layout: Layout, is_one_value: bool) -> bool:
    """One index an address; else the op's order decides. (One value may fill a repeated dimension.)"""
    return nested(layout) and (is_one_value or all(s for _, s in layout.axes()))


def _without_out(call: Call) -> tuple[tuple[object, ...], tuple[tuple[str, object], ...], list[NodeId]]:
    """Arguments and operands of the functional form: what ``out=`` named is no operand of it."""
    kwargs = tuple((k, v) for k, v in call.op.kwargs if k != "out")
    reads: list[NodeId] = []

    def renumber(value: object) -> object:
        if isinstance(value, Operand):
            reads.extend(tensors_of(value, call.operands))
            return Operand(len(reads) - 1)
        return tuple(renumber(item) for item in value) if is_tuple(value) else value

    args = tuple(renumber(a) for a in call.op.args)
    return args, tuple((k, renumber(v)) for k, v in kwargs), reads
