"""forward: trivial ops on one input travel into whatever needs them, and are computed there again.

A chain begins at a load and goes on with casts, ops on one tensor, permutes, broadcasts, squeezes, expands and
reshapes that merge. Its ops are marked ``forward``: every segment that needs the value computes it, and none stores it.
Of what is not marked the segmenter decides by bytes whether it is stored once or computed again. Before and after, for
a bf16 tensor that two sums in different directions need as f32::

    ^1 %x = fk.cast(%x.in)          ->      ^1 %x = fk.cast(%x.in) forward
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import ClassVar

from fusekit.ids import NodeId
from fusekit.index import Div, Form, Mod
from fusekit.ir import FUNCTIONAL, Graph, Invariant, PassResult, core
from fusekit.passes.base import is_value_op
from fusekit.why import Reason

FREE = core.Load | core.Fill | core.Iota


@dataclass(frozen=True)
class Forward:
    """The pass."""

    name: ClassVar[str] = "forward"
    expects: ClassVar[tuple[Invariant, ...]] = FUNCTIONAL
    ensures: ClassVar[tuple[Invariant, ...]] = FUNCTIONAL

    def __call__(self, graph: Graph) -> PassResult:
        work = _Forward(graph)
        draft = graph.draft(self.name)
        for op in graph.ops():
            if is_value_op(graph, op):
                found = work.step(op)
                if isinstance(found, Reason):
                    draft.decline((op,), found)
        for op, chain in work.chains.items():
            if not isinstance(graph.what(op), FREE):
                draft.replace(op, replace(graph.op(op), forward=True))
                if reason := work.arrives(op, chain):
                    draft.note((op,), reason, (chain.source,))
        return draft.finish(self.ensures)


@dataclass(frozen=True)
class _Chain:
    """Ops in a row from the load ``source`` on, which reads ``nbytes``. ``repeats``: has an expand come by?"""

    source: NodeId
    nbytes: int
    ops: int = 0
    repeats: bool = False


@dataclass
class _Forward:
    """One run of the pass; ``chains``: those ops that may travel, each with the chain that it ends."""

    graph: Graph
    chains: dict[NodeId, _Chain] = field(default_factory=dict[NodeId, _Chain])

    def __post_init__(self) -> None:
        self._overwritten = {first for first, _, ordering in self.graph.orderings() if "WAR" in ordering.kinds}

    def step(self, op: NodeId) -> Reason | None:
        """Takes the op into a chain; or why a chain stops in front of it, where one came so far."""
        what = self.graph.what(op)
        if isinstance(what, FREE):
            return self._begin(op)
        sources = dict.fromkeys(self.graph.operands(op))
        before = [self.chains.get(self.graph.producer(t)) for t in sources]
        if len(before) != 1 or before[0] is None or isinstance(what, core.Reduce | core.Overlay):
            return None
        found = self._grown(op, before[0], next(iter(sources)))
        if isinstance(found, _Chain):
            self.chains[op] = found
            return None
        return found

    def _begin(self, op: NodeId) -> Reason | None:
        if not isinstance(self.graph.what(op), core.Load):
            self.chains[op] = _Chain(op, 0)
            return None
        (place,) = self.graph.operands(op)
        layout = self.graph.layout(place)
        if op in self._overwritten:
            return Reason.of("written-later", place=place)
        moving = prod(n for n, s in zip(layout.shape, layout.strides, strict=True) if s)
        self.chains[op] = _Chain(op, moving * layout.dtype.width)
        return None

    def _grown(self, op: NodeId, chain: _Chain, source: NodeId) -> _Chain | Reason:
        """The chain with this op at its end."""
        what, made = self.graph.what(op), self.graph.results(op)[0]
        longer = replace(chain, ops=chain.ops + 1)
        if isinstance(what, core.Window):
            kind = view_kind(what.index, self.graph.tensor(source).shape, self.graph.tensor(made).shape)
            if kind in ("slice", "split"):
                return Reason.of("may-not-travel", kind=kind)
            longer = replace(longer, repeats=chain.repeats or kind == "expand")
        elif chain.repeats and not isinstance(what, core.Cast | core.Bits):
            return Reason.of("would-repeat", op=what.target)
        return self._stop(op, chain, made) or longer

    def _stop(self, op: NodeId, chain: _Chain, made: NodeId) -> Reason | None:
        """Why the value stays where it is made: it is in memory anyway, or that is cheaper."""
        users = self.graph.users(made)
        for user in users:
            if isinstance(self.graph.what(user), core.Store):
                place = self.graph.operands(user)[1]
                calls = [u for u in self.graph.users(place) if not isinstance(self.graph.what(u), core.Store)]
                calls = [u for u in calls if isinstance(self.graph.what(u), core.Call)]
                if calls:
                    return Reason.of("taken-from-memory", op=self.graph.op(calls[0]).target)
                return Reason.of("is-stored", place=place)
        again, stored = self._bytes(chain, made, len(users))
        return Reason.of("cheaper-stored", again=again, stored=stored) if again > stored else None

    def _bytes(self, chain: _Chain, made: NodeId, consumers: int) -> tuple[int, int]:
        """Bytes moved if each consumer computes the chain for itself, and if the value is stored once and loaded."""
        tensor = self.graph.tensor(made)
        nbytes = prod(tensor.shape) * tensor.dtype.width
        return chain.nbytes * consumers, chain.nbytes + (nbytes * consumers if consumers > 1 else 0)

    def arrives(self, op: NodeId, chain: _Chain) -> Reason | None:
        """What to say of a chain where it ends: at consumers that are not in it."""
        (made,) = self.graph.results(op)
        consumers = [user for user in self.graph.users(made) if user not in self.chains]
        if not consumers:
            return None
        again, stored = self._bytes(chain, made, len(consumers))
        facts = {"ops": chain.ops, "consumers": len(consumers), "again": again, "stored": stored}
        return Reason.of("forwarded", **facts)


def view_kind(index: core.Index, source: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """permute (also broadcast, squeeze and reshapes that merge), expand, split, or slice (anything else)."""
    for form, n in zip(index, source, strict=True):
        if n == 1:
            continue
        if len(form.terms) > 1 and form.bounds == (0, n - 1):
            return "split"
        if len(form.terms) != 1 or form.const or form.terms[0][1] != 1 or form.bounds != (0, n - 1):
            return "slice"
        if not _is_digit(form):
            return "slice"
    return "expand" if prod(shape) > prod(source) else "permute"


def _is_digit(form: Form) -> bool:
    """One variable, or one digit of it."""
    ((atom, _),) = form.terms
    while isinstance(atom, Div | Mod):
        if len(atom.of.terms) != 1 or atom.of.const or atom.of.terms[0][1] != 1:
            return False
        ((atom, _),) = atom.of.terms
    return True
