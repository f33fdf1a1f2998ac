"""Values pulled at (tensor, index): each value at one index becomes one statement, whoever asks for it.

Pulling is inlining, common subexpressions and hoisting at once: a statement's place in the loops follows from the
loop variables in its index, and its step from the reductions that it takes. What a loop's next pass needs again is
pulled again, and computed again where its place is inside that loop. The statements stay one flat list (printing a
choice in nested scopes is exponential); which of them matter where is asked of ``contexts``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never, cast

from fusekit.dtypes import F32, I64, DType
from fusekit.ids import NodeId
from fusekit.index import ZERO, Form, Var, print_form, substitute
from fusekit.ir import Graph, Guard, Number, core
from fusekit.lower.assume import assume_all
from fusekit.lower.contexts import Use
from fusekit.lower.expressions import Apply, Bits, Convert, Expr, Literal, Name, Parameter, Position, Select
from fusekit.lower.items import Item, Path, Result
from fusekit.lower.loops import Loops
from fusekit.lower.names import Names
from fusekit.lower.program import Assign, Load, Test, TileLoad
from fusekit.lower.refuse import CannotLower, NoVectors
from fusekit.lower.scalars import scalar_of, unrounded
from fusekit.lower.target import lifted
from fusekit.lower.tiles import Shared
from fusekit.lower.vectors import near, whole
from fusekit.schedule.plan import open_guards

Index = core.Index
Key = tuple[NodeId, Index]
Scope = tuple[Path, int]


@dataclass
class Puller:
    """Grows the list of statements; ``items`` keeps operands before users.

    ``path`` and ``guards`` are those of the root for which values are pulled. ``inline``: reductions over single
    elements. ``finished``: the results of reductions by (tensor, index). ``keys``: what each computed scalar is.
    ``exact``: is every op's result rounded to its dtype? ``step`` is the root's in the innermost of its loops.
    ``tiles``: values that are in shared memory; ``copy``: the numbers of the unrolled loops of the copy in hand.
    ``persist``: the values that registers carry from one step to a later one; None: all. Others are made again.
    """

    graph: Graph
    names: Names
    limit: int
    loops: Loops
    inline: frozenset[NodeId] = frozenset()
    path: Path = ()
    step: int = 0
    tiles: dict[NodeId, Shared] = field(default_factory=dict[NodeId, Shared])
    copy: dict[Var, Form] = field(default_factory=dict[Var, Form])
    persist: tuple[NodeId, ...] | None = None
    guards: tuple[Guard, ...] = ()
    exact: bool = True
    items: dict[str, Item] = field(default_factory=dict[str, Item])
    tests: dict[tuple[tuple[Guard, ...], Path], str] = field(default_factory=dict[tuple[tuple[Guard, ...], Path], str])
    finished: dict[Key, Result] = field(default_factory=dict[Key, Result])
    positions: dict[Var, str] = field(default_factory=dict[Var, str])
    keys: dict[str, Key] = field(default_factory=dict[str, Key])
    _here: set[tuple[Key, Scope]] = field(default_factory=set[tuple[Key, Scope]])
    _known: dict[tuple[Key, Scope], str] = field(default_factory=dict[tuple[Key, Scope], str])
    _made: dict[tuple[object, ...], str] = field(default_factory=dict[tuple[object, ...], str])

    def pull(self, tensor: NodeId, index: Index) -> str:
        """The name of the scalar that is ``tensor`` at ``index``. Raises CannotLower."""
        first = self._key(tensor, index)
        stack = [first]
        while stack:
            key = stack[-1]
            missing = [] if self._is_known(key) else [k for k in self._needs(key) if not self._is_known(k)]
            if missing:
                stack += reversed(missing)
                continue
            if not self._is_known(key):
                self._known[key, self._scope(key)] = self._make(key)
                if any((k, self._scope(k)) in self._here for k in self._needs(key)):
                    self._here.add((key, self._scope(key)))
            stack.pop()
        return self._name(first)

    def enter(self, path: Path, step: int, guards: tuple[Guard, ...]) -> None:
        """Values are now pulled for another root; those that only its guards made equal are forgotten."""
        if guards != self.guards:
            for known in self._here:
                self._known.pop(known, None)
                for made in [m for m in self._made if m[0] == known[0]]:
                    del self._made[made]
            self._here.clear()
        self.path, self.step, self.guards = path, step, guards

    def test(self, guards: tuple[Guard, ...]) -> str:
        """The name of the test that all guards hold."""
        free, uses = self._depends(guard.form for guard in guards)
        place = self._path(free, uses)
        known = (guards, place[0])
        if known not in self.tests:
            lanes = self.loops.lanes in free
            name = self.tests[known] = self.names.fresh("lanes_inside" if lanes else "inside")
            self.items[name] = Item(Test(name, guards, lanes), uses, free, *place)
        return self.tests[known]

    def finish(self, key: Key, result: Result) -> None:
        """The result of a reduction, for whoever takes it."""
        self.finished[self._key(*key)] = result

    def repeated(self, name: str, dtype: DType, op: NodeId) -> str:
        """A scalar as a vector of itself."""
        item, known = self.items[name], ("repeated", name)
        if known not in self._made:
            statement = Assign(self.names.fresh(f"{name}_lanes"), Name(name), dtype, (op,), True)
            self._made[known] = self._add(replace(item, statement=statement, uses=((name, frozenset()),), block=None))
        return self._made[known]

    def rounded(self, name: str, dtype: DType, op: NodeId) -> str:
        """A scalar as memory would hold it: where ops do not round, one of a half may have more digits."""
        item, known = self.items[name], ("rounded", name, dtype)
        if lifted(dtype, self.exact) == dtype or isinstance(item.statement, Load):
            return name
        if known not in self._made:
            value = Convert(Name(name), F32, dtype)
            statement = Assign(self.names.fresh(f"{name}_{dtype}"), value, dtype, (op,), item.lanes)
            self._made[known] = self._add(replace(item, statement=statement, uses=((name, frozenset()),), block=None))
        return self._made[known]

    def _is_known(self, key: Key) -> bool:
        return (key, self._scope(key)) in self._known

    def _name(self, key: Key) -> str:
        return self._known[key, self._scope(key)]

    def _scope(self, key: Key) -> Scope:
        """Where a value is made once: in the loops of the root, and in its step where no register carries it on.

        What a row has in common is carried on in any case, and so are results of reductions.
        """
        if self.persist is None or key[0] in self.persist:
            return self.path, -1
        free = frozenset[Var]().union(*(form.free for form in key[1]))
        return self.path, self.step if free & self.loops.folded else -1

    # ---- where a statement stands

    def _depends(self, forms: Iterable[Form]) -> tuple[frozenset[Var], tuple[Use, ...]]:
        """Loop variables of some forms, and the positions in them that data decide."""
        free = frozenset[Var]().union(*(form.free for form in forms))
        found = [var for var in free if var in self.positions]
        names = sorted(self.positions[var] for var in found)
        outer = frozenset[Var]().union(*(self.items[name].free for name in names))
        return (free - set(found)) | outer, tuple((name, frozenset[tuple[str, bool]]()) for name in names)

    def _path(self, free: frozenset[Var], uses: Iterable[Use]) -> tuple[Path, int]:
        """The loops that a statement stands in, and its step in the innermost loop's body."""
        items = [self.items[name] for name, _ in uses]
        own = max((k + 1 for k, (_, at) in enumerate(self.path) if self.loops.order[at] in free), default=0)
        depth = max([own, *(item.depth for item in items)])
        step = max((item.step for item in items if item.depth == depth), default=min(self.step, 0))
        step = max(step, min(self.step, 0))
        if depth > len(self.path):
            raise CannotLower(f"a value is made in {depth} loops and needed in {len(self.path)}")
        return self.path[:depth], step

    # ---- what a value needs

    def _key(self, tensor: NodeId, index: Index) -> Key:
        shape = self.graph.tensor(tensor).shape
        return tensor, tuple(ZERO if n == 1 else form for form, n in zip(index, shape, strict=True))

    def _reads(self, key: Key, free: Form = ZERO) -> tuple[core.Read, ...]:
        """What the op of a value reads of its operands; ``free``: at a dimension that the value's index does not tell,
        the position that a look-up found, else the one element that is folded."""
        return self.graph.reads(*key, lambda dim: free)

    def _needs(self, key: Key) -> list[Key]:
        """The values that make this one: of an overlay the inner one first, of a look-up the position."""
        if self._tile_of(key) is not None:
            return []
        node = self._producer(key[0])
        match self.graph.what(node):
            case core.Load() | core.Fill() | core.Iota():
                wanted: Sequence[core.Read] = ()
            case core.Overlay():
                outside, inside = self._reads(key)
                guards = open_guards(inside.where)
                wanted = (outside,) if guards is None else (inside, outside) if guards else (inside,)
            case core.Reduce():
                wanted = self._reads(key) if node in self.inline else ()
            case core.Take() | core.Gather():
                return self._looked_up(key, node)
            case core.Window() | core.Cast() | core.Bits() | core.Call():
                wanted = self._reads(key)
            case core.Store() | core.CheckIndex() | core.Input() | core.Return() as what:
                raise CannotLower(f"{what.target} makes no value")
            case never:
                assert_never(never)
        return [self._operand(node, read) for read in wanted]

    def _operand(self, node: NodeId, read: core.Read) -> Key:
        return self._key(self.graph.operands(node)[read.operand], read.index)

    def _looked_up(self, key: Key, node: NodeId) -> list[Key]:
        """The index tensor, and once its scalar has a name, the source at the position that it holds."""
        source, positions = self.graph.operands(node)
        inner = self._operand(node, self._reads(key)[1])
        if not self._is_known(inner):
            return [inner]
        what = self.graph.what(node)
        assert isinstance(what, core.Lookup), f"{node} is no look-up"
        at = self._position(self._name(inner), positions, self.graph.tensor(source).shape[what.dim], node)
        return [inner, self._operand(node, self._reads(key, at)[0])]

    def _position(self, name: str, tensor: NodeId, extent: int, node: NodeId) -> Form:
        """A loaded index as a variable of index forms."""
        item = self.items[name]
        if item.lanes:
            raise NoVectors("each lane looks up at a position of its own")
        known = ("position", name, extent)
        if known not in self._made:
            dtype, wanted = self.graph.tensor(tensor).dtype, name
            if dtype is not I64:
                wanted = self.names.fresh(f"at_{name}")
                statement = Assign(wanted, Convert(Name(name), dtype, I64), I64, (node,))
                self._add(Item(statement, ((name, frozenset()),), item.free, item.path, item.step))
            self._made[known] = wanted
            self.positions[Var(wanted, extent, "found")] = wanted
        return Form.of(Var(self._made[known], extent, "found"))

    def _producer(self, tensor: NodeId) -> NodeId:
        if not self.graph.is_value(tensor):
            raise CannotLower(f"{tensor} is memory, not a value")
        return self.graph.producer(tensor)

    # ---- statements

    def _make(self, key: Key) -> str:
        if (shared := self._tile_of(key)) is not None:
            return self._from_tile(key, shared)
        node, payload = self.graph.producer(key[0]), self.graph.tensor(key[0])
        needs = self._needs(key)
        names = [self._name(k) for k in needs]
        match self.graph.what(node):
            case core.Load():
                return self._load(node, key[1])
            case core.Window():
                return names[0]
            case core.Overlay():
                return names[0] if len(names) == 1 else self._choose(key, names)
            case core.Take() | core.Gather():
                return names[1]
            case core.Reduce() if node not in self.inline:
                return self._result(key)
            case core.Reduce() as what if what.is_arg:
                return self._assign(key, "first", Literal(0, I64), [], (), payload.dtype)
            case core.Reduce() | core.Cast():
                return self._converted(key, names[0], self.graph.tensor(needs[0][0]).dtype)
            case core.Bits():
                return self._bits(key, names[0], self.graph.tensor(needs[0][0]).dtype, node)
            case core.Fill(value):
                return self._assign(key, "fill", self._number(value, payload.dtype), [], (), payload.dtype)
            case core.Iota(start, step):
                expr = self._iota(key[1][0], start, step, payload.dtype)
                return self._assign(key, "arange", expr, [], key[1], payload.dtype)
            case core.Call(target):
                expr, wanted = self._apply(node, names), _word(target)
                if self.names.is_reserved(wanted) and names:  # exp_x = exp(x)
                    wanted = f"{wanted}_{names[0].split('_')[0]}"
                return self._assign(key, wanted, expr, names, (), payload.dtype)
            case core.Store() | core.CheckIndex() | core.Input() | core.Return() as what:
                raise CannotLower(f"{what.target} makes no value")
            case never:
                assert_never(never)

    def _converted(self, key: Key, name: str, kind: DType) -> str:
        """A value of ``kind`` as another dtype; itself where a register holds both alike."""
        dtype = self.graph.tensor(key[0]).dtype
        if kind == dtype or lifted(kind, self.exact) == lifted(dtype, self.exact):
            return name
        expr = Convert(Name(name), kind, lifted(dtype, self.exact))
        return self._assign(key, f"{name}_{dtype}", expr, [name], (), dtype)

    def _bits(self, key: Key, name: str, kind: DType, node: NodeId) -> str:
        dtype = self.graph.tensor(key[0]).dtype
        if kind == dtype:
            return name
        held = self.rounded(name, kind, node)
        return self._assign(key, f"{held}_bits", Bits(Name(held), kind, dtype), [held], (), dtype)

    def _tile_of(self, key: Key) -> Shared | None:
        """The tile that holds a value at the index at which it is wanted."""
        shared = self.tiles.get(key[0])
        if shared is None or self.step < 0:
            return None
        held = tuple(substitute(form, self.copy) for form in shared.index)
        return shared if self._key(key[0], held) == key else None

    def _from_tile(self, key: Key, shared: Shared) -> str:
        at = substitute(shared.at, self.copy)
        path, step = self._path(at.free, ())
        known = ("tile", key, at, path)
        if known not in self._made:
            name = self.names.fresh(self.graph.tensor(key[0]).name or key[0][1:])
            statement = TileLoad(name, shared.tile.name, at, shared.tile.dtype, self.loops.lanes in at.free)
            self._made[known] = self._add(Item(statement, (), at.free, path, step))
        return self._made[known]

    def _result(self, key: Key) -> str:
        """The result of a reduction, at an index where it is made."""
        found = self.finished.get(key)
        if found is None:  # another form, perhaps, that is equal wherever the root for which values are pulled runs
            wanted = assume_all(key[1], self.guards)
            alike = (k for k in self.finished if k[0] == key[0] and assume_all(k[1], self.guards) == wanted)
            self._here.add((key, self._scope(key)))
            key = next(alike, key)
            found = self.finished.get(key)
        if found is None:
            made = [print_index(k[1]) for k in self.finished if k[0] == key[0]]
            where = f"it is made at {made[0]}" if made else "it is not made yet"
            raise CannotLower(f"{key[0]} is wanted at {print_index(key[1])}, where no loop makes it: {where}")
        path, step, statement = found.path, found.step, found.statement
        if statement.at is not None:  # one of several accumulators: read where it is wanted
            free = statement.at.free
            path, own = self._path(free, ())
            step = found.step if path == found.path else own
        known = ("result", key, path)
        if known not in self._made:
            if statement.at is not None:
                statement = replace(statement, name=self.names.fresh(statement.name))
            free = frozenset[Var]().union(*(form.free for form in key[1]))
            self._made[known] = self._add(Item(statement, (), free, path, step))
        return self._made[known]

    def _iota(self, index: Form, start: core.Scalar, step: core.Scalar, dtype: DType) -> Position:
        for number in (n for n in (start, step) if isinstance(n, Number)):
            self.names.number(number)
        if isinstance(start, complex) or isinstance(step, complex):
            raise CannotLower("a kernel counts in no complex numbers")
        return Position(index, start, step, dtype)

    def _assign(
        self,
        key: Key,
        wanted: str,
        expr: Expr,
        names: Sequence[str],
        forms: Index,
        dtype: DType,
        tests: Iterable[Use] = (),
    ) -> str:
        free, positions = self._depends(forms)
        uses = (*(tests or ((name, frozenset[tuple[str, bool]]()) for name in names)), *positions)
        tested = [self.items[test] for _, case in uses for test, _ in case]
        free = free.union(*(self.items[name].free for name, _ in uses), *(item.free for item in tested))
        path, step = self._path(free, [*uses, *((item.name, frozenset[tuple[str, bool]]()) for item in tested)])
        step, known = self._again(key, path, step), (key, path, self._scope(key)[1])
        if known not in self._made:
            lanes = self.loops.lanes in free or any(self.items[name].lanes for name, _ in uses)
            statement = Assign(self.names.fresh(wanted), expr, dtype, (self.graph.producer(key[0]),), lanes)
            self._made[known] = self._add(Item(statement, uses, free, path, step))
            self.keys[self._made[known]] = key
        return self._made[known]

    def _add(self, item: Item) -> str:
        if len(self.items) >= self.limit:
            raise CannotLower(f"one kernel would compute more than {self.limit} values")
        self.items[item.name] = item
        return item.name

    def _choose(self, key: Key, names: Sequence[str]) -> str:
        payload, guards = self.graph.tensor(key[0]), open_guards(self._reads(key)[1].where) or ()
        inside, outside = names
        if inside == outside:
            return inside
        test = self.test(guards)
        if self.items[test].lanes:
            uses = (*self._uses(inside, True, near(guards, self.loops.lanes)), (test, frozenset[tuple[str, bool]]()))
            uses = (*uses, *self._uses(outside, False, whole(guards, self.loops.lanes)))
        else:
            uses = ((inside, frozenset([(test, True)])), (outside, frozenset([(test, False)])))
        expr = Select(test, Name(inside), Name(outside), payload.dtype)
        return self._assign(key, "choice", expr, names, (), payload.dtype, uses)

    def _uses(self, name: str, holds: bool, guards: tuple[Guard, ...] | None) -> tuple[Use, ...]:
        """The use of a value for some lane: where the guards hold, or where they do not. None of them never holds."""
        left = None if guards is None else open_guards(guards)
        if left:
            return ((name, frozenset([(self.test(left), holds)])),)
        return ((name, frozenset[tuple[str, bool]]()),) if holds == (left is not None) else ()

    def _again(self, key: Key, path: Path, step: int) -> int:
        """The step of a statement: of a value that no register carries on, the root's own."""
        if self._scope(key)[1] < 0:
            return step
        return max(step, self.path[len(path)][0] if len(path) < len(self.path) else self.step)

    def _load(self, node: NodeId, index: Index) -> str:
        place = self.graph.operands(node)[0]
        layout, block = self.graph.layout(place), cast(NodeId, self.graph.block_of(place))
        address, dtype = layout.address(index), layout.dtype
        free, uses = self._depends([address])
        path, step = self._path(free, uses)
        key = self._key(self.graph.results(node)[0], index)
        step, known = self._again(key, path, step), (block, address, dtype, path, self._scope(key)[1])
        if known not in self._made:
            name = self.names.fresh(self.graph.tensor(place).name or place[1:])
            memory = self.names.memory(block)
            statement = Load(name, memory, address, dtype, None, (node,), self.loops.lanes in free)
            self._made[known] = self._add(Item(statement, uses, free, path, step, block, layout.extent))
            return self._made[known]
        item = self.items[self._made[known]]  # two tensors at one address: the load may reach what either covers
        first, last = min(item.extent[0], layout.extent[0]), max(item.extent[1], layout.extent[1])
        load = cast(Load, item.statement)
        load = load if node in load.ops else replace(load, ops=(*load.ops, node))
        self.items[item.name] = replace(item, statement=load, extent=(first, last))
        return item.name

    def _number(self, value: core.Scalar, dtype: DType) -> Expr:
        if isinstance(value, Number):
            self.names.number(value)
            return Parameter(value, dtype)
        if isinstance(value, complex):
            raise CannotLower(f"{value!r} is no number that a kernel can hold")
        return Literal(value, dtype)

    def _apply(self, node: NodeId, names: Sequence[str]) -> Apply:
        scalar = scalar_of(self.graph, node)
        if isinstance(scalar, str):
            raise CannotLower(scalar)
        for number in scalar.numbers:
            self.names.number(number)
        # A conversion that the program writes is no intermediate rounding: it is what it asks for.
        exact = self.exact or self.graph.op(node).target == "aten._to_copy.default"
        if not exact:
            scalar = unrounded(scalar)
        operands: list[Name | Convert] = []
        for tensor, name, dtype in zip(self.graph.operands(node), names, scalar.operands, strict=True):
            own, dtype = lifted(self.graph.tensor(tensor).dtype, self.exact), lifted(dtype, exact)
            operands.append(Name(name) if own == dtype else Convert(Name(name), own, dtype))
        return Apply(scalar, tuple(operands), scalar.result)


def print_index(index: Index) -> str:
    return f"[{', '.join(map(print_form, index))}]"


def _word(target: str) -> str:
    """``aten.add.Tensor`` -> ``add``."""
    return target.split(".")[1] if target.count(".") else target
