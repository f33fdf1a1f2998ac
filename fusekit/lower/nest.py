"""Values pulled at (tensor, index): each value at one index becomes one statement, whoever asks for it.

Pulling is inlining, common subexpressions and hoisting at once: a statement's place in the loops follows from the
loop variables in its index. The statements stay one flat list (printing a choice in nested scopes is exponential);
which of them matter where is asked of ``contexts``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from fusekit.dtypes import DType
from fusekit.ids import NodeId
from fusekit.index import Form, Var, loop_vars, substitute
from fusekit.ir import Graph, Guard, Number, Tensor
from fusekit.lower.contexts import Use
from fusekit.lower.names import Names
from fusekit.lower.program import (
    Apply,
    Assign,
    Bits,
    Convert,
    Expr,
    Literal,
    Load,
    Name,
    Parameter,
    Position,
    Select,
    Test,
)
from fusekit.lower.refuse import CannotLower
from fusekit.lower.scalars import scalar_of

Index = tuple[Form, ...]
Key = tuple[NodeId, Index]
ZERO = Form()


@dataclass(frozen=True, slots=True)
class Item:
    """One statement of the flat list.

    ``uses``: values it takes and the tests under which it takes them. ``free``: variables in its index. ``extent``:
    bytes that a load's whole tensor may touch.
    """

    statement: Load | Assign | Test
    uses: tuple[Use, ...]
    free: frozenset[Var]
    block: NodeId | None = None
    extent: tuple[int, int] = (0, 0)

    @property
    def name(self) -> str:
        return self.statement.name


@dataclass
class Puller:
    """Grows the list of statements; ``items`` keeps operands before users."""

    graph: Graph
    names: Names
    limit: int
    items: dict[str, Item] = field(default_factory=dict)
    tests: dict[tuple[Guard, ...], str] = field(default_factory=dict)
    _known: dict[Key, str] = field(default_factory=dict)
    _loaded: dict[tuple[object, ...], str] = field(default_factory=dict)

    def pull(self, tensor: NodeId, index: Index) -> str:
        """The name of the scalar that is ``tensor`` at ``index``. Raises CannotLower."""
        first = self._key(tensor, index)
        stack = [first]
        while stack:
            key = stack[-1]
            missing = [] if key in self._known else [k for k in self._needs(key) if k not in self._known]
            if missing:
                stack += reversed(missing)
                continue
            if key not in self._known:
                self._known[key] = self._make(key)
            stack.pop()
        return self._known[first]

    def test(self, guards: tuple[Guard, ...]) -> str:
        """The name of the test that all guards hold."""
        if guards not in self.tests:
            name = self.tests[guards] = self.names.fresh("inside")
            free = frozenset[Var]().union(*(guard.form.free for guard in guards))
            self.items[name] = Item(Test(name, guards), (), free)
        return self.tests[guards]

    # ---- what a value needs

    def _key(self, tensor: NodeId, index: Index) -> Key:
        shape = self.graph.tensor(tensor).shape
        return tensor, tuple(ZERO if n == 1 else form for form, n in zip(index, shape, strict=True))

    def _needs(self, key: Key) -> list[Key]:
        """The values that make this one, in the order of its operands."""
        tensor, index = key
        node = self._producer(tensor)
        op, operands = self.graph.op(node), self.graph.operands(node)
        match op.target:
            case "fk.load" | "fk.fill" | "fk.iota":
                return []
            case "fk.window":
                return [self._key(operands[0], self._through(tensor, index, op.kwarg("index")))]
            case "fk.overlay":
                base, value = operands
                outside, inside = (base, index), (value, self._through(tensor, index, op.kwarg("index")))
                guards = self._guards(key)
                if guards is None:
                    return [self._key(*outside)]
                return [self._key(*inside), self._key(*outside)] if guards else [self._key(*inside)]
            case _:
                return [self._key(operand, self._broadcast(operand, index)) for operand in operands]

    def _producer(self, tensor: NodeId) -> NodeId:
        if not self.graph.is_value(tensor):
            raise CannotLower(f"{tensor} is memory, not a value")
        return self.graph.producer(tensor)

    def _through(self, tensor: NodeId, index: Index, forms: object) -> Index:
        """Forms over the tensor's own index, at ``index``."""
        return tuple(substitute(form, self._env(tensor, index)) for form in cast("tuple[Form, ...]", forms))

    def _env(self, tensor: NodeId, index: Index) -> dict[Var, Form]:
        own = loop_vars(self.graph.tensor(tensor).shape)
        return {cast(Var, form.terms[0][0]): at for form, at in zip(own, index, strict=True) if form.terms}

    def _guards(self, key: Key) -> tuple[Guard, ...] | None:
        """The guards of an overlay that intervals leave open; None when one of them never holds."""
        tensor, index = key
        env = self._env(tensor, index)
        where = cast("tuple[Guard, ...]", self.graph.op(self.graph.producer(tensor)).kwarg("where", ()))
        return open_guards(Guard(substitute(guard.form, env), guard.extent) for guard in where)

    def _broadcast(self, operand: NodeId, index: Index) -> Index:
        """The operand's index where the result has ``index``: dimensions are aligned at the last one."""
        rank = len(self.graph.tensor(operand).shape)
        return index[len(index) - rank :]

    # ---- statements

    def _make(self, key: Key) -> str:
        tensor, index = key
        node = self.graph.producer(tensor)
        op, payload = self.graph.op(node), self.graph.tensor(tensor)
        needs = self._needs(key)
        names = [self._known[k] for k in needs]
        kinds = [self.graph.tensor(k[0]).dtype for k in needs]
        match op.target:
            case "fk.load":
                return self._load(node, index)
            case "fk.window":
                return names[0]
            case "fk.overlay":
                return names[0] if len(names) == 1 else self._choose(key, names)
            case "fk.cast" | "fk.bits" if kinds[0] == payload.dtype:
                return names[0]
            case "fk.cast":
                expr: Expr = Convert(Name(names[0]), kinds[0], payload.dtype)
                wanted = f"{names[0]}_{payload.dtype}"
            case "fk.bits":
                expr, wanted = Bits(Name(names[0]), kinds[0], payload.dtype), f"{names[0]}_bits"
            case "fk.fill":
                expr, wanted = self._number(op.kwarg("value"), payload.dtype), "fill"
            case "fk.iota":
                start, step = (cast("int | float | Number", op.kwarg(*word)) for word in (("start", 0), ("step", 1)))
                for number in (n for n in (start, step) if isinstance(n, Number)):
                    self.names.number(number)
                expr, wanted = Position(index[0], start, step, payload.dtype), "arange"
            case _:
                expr, wanted = self._apply(node, names), _word(op.target)
                if self.names.is_reserved(wanted) and names:  # exp_x = exp(x)
                    wanted = f"{wanted}_{names[0].split('_')[0]}"
        free = frozenset[Var]().union(*(form.free for form in index)) if op.target == "fk.iota" else frozenset[Var]()
        return self._assign(wanted, expr, payload, tuple((name, frozenset()) for name in names), free, node)

    def _assign(
        self, wanted: str, expr: Expr, payload: Tensor, uses: tuple[Use, ...], free: frozenset[Var], node: NodeId
    ) -> str:
        free = free.union(*(self.items[name].free for name, _ in uses))
        name = self.names.fresh(wanted)
        return self._add(Item(Assign(name, expr, payload.dtype, (node,)), uses, free))

    def _add(self, item: Item) -> str:
        if len(self.items) >= self.limit:
            raise CannotLower(f"one kernel would compute more than {self.limit} values")
        self.items[item.name] = item
        return item.name

    def _choose(self, key: Key, names: Sequence[str]) -> str:
        payload = self.graph.tensor(key[0])
        test = self.test(self._guards(key) or ())
        inside, outside = names
        if inside == outside:
            return inside
        uses = ((inside, frozenset([(test, True)])), (outside, frozenset([(test, False)])))
        expr = Select(test, Name(inside), Name(outside), payload.dtype)
        return self._assign("choice", expr, payload, uses, self.items[test].free, self.graph.producer(key[0]))

    def _load(self, node: NodeId, index: Index) -> str:
        place = self.graph.operands(node)[0]
        layout, block = self.graph.layout(place), cast(NodeId, self.graph.block_of(place))
        address, dtype = layout.address(index), layout.dtype
        known = (block, address, dtype)
        if known not in self._loaded:
            name = self.names.fresh(self.graph.tensor(place).name or place[1:])
            memory = self.names.memory(block)
            statement = Load(name, memory, address, dtype, None, (node,))
            self._loaded[known] = self._add(Item(statement, (), address.free, block, layout.extent))
            return self._loaded[known]
        item = self.items[self._loaded[known]]  # two tensors at one address: the load may reach what either covers
        first, last = min(item.extent[0], layout.extent[0]), max(item.extent[1], layout.extent[1])
        self.items[item.name] = replace(item, extent=(first, last))
        return item.name

    def _number(self, value: object, dtype: DType) -> Expr:
        if isinstance(value, Number):
            self.names.number(value)
            return Parameter(value, dtype)
        if not isinstance(value, bool | int | float):
            raise CannotLower(f"{value!r} is no number that a kernel can hold")
        return Literal(value, dtype)

    def _apply(self, node: NodeId, names: Sequence[str]) -> Apply:
        scalar = scalar_of(self.graph, node)
        if isinstance(scalar, str):
            raise CannotLower(scalar)
        for number in scalar.numbers:
            self.names.number(number)
        operands: list[Name | Convert] = []
        for tensor, name, dtype in zip(self.graph.operands(node), names, scalar.operands, strict=True):
            own = self.graph.tensor(tensor).dtype
            operands.append(Name(name) if own == dtype else Convert(Name(name), own, dtype))
        return Apply(scalar, tuple(operands), scalar.result)


def open_guards(guards: Sequence[Guard] | object) -> tuple[Guard, ...] | None:
    """The guards that intervals do not prove; None when they refute one."""
    left: list[Guard] = []
    for guard in cast("Sequence[Guard]", guards):
        low, high = guard.form.bounds
        if high < 0 or low >= guard.extent or guard.extent <= 0:
            return None
        if (low < 0 or high >= guard.extent) and guard not in left:
            left.append(guard)
    return tuple(left)


def _word(target: str) -> str:
    """``aten.add.Tensor`` -> ``add``."""
    return target.split(".")[1] if target.count(".") else target
