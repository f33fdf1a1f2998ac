"""Before any value is pulled: where every root runs, in which order of loops, and in which pass over each loop.

The body of a loop is a row of *steps*: straight statements, then one pass over the next loop inside. A reduction over a
loop has its result after that loop's pass; what needs the result stands in a later step. So phases are found per loop:
a softmax is three passes over the columns inside one over the rows, a normalisation of the whole passes side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from fusekit.domains import Placed, Reference, place, reduced_dims, space_of
from fusekit.errors import CannotLower
from fusekit.ids import NodeId
from fusekit.index import Div, Form, Mod, Var
from fusekit.ir import Graph, Guard, core

MOST_ACCUMULATORS = 4096
Places = Callable[[NodeId], "Placed | None"]


@dataclass(frozen=True, slots=True)
class Space:
    """Loops over a reference. ``index``: the logical index at an iteration, right where all ``bounds`` hold.

    ``order``: the loops, outermost first. ``folded``: variables of the reference's reduced axes.
    """

    space: tuple[int, ...]
    index: tuple[Form, ...]
    bounds: tuple[Guard, ...]
    order: tuple[Var, ...]
    folded: frozenset[Var]

    def depth(self, free: Iterable[Var]) -> int:
        """How many loops are around a statement whose index has these variables."""
        free = set(free)
        return max((k + 1 for k, var in enumerate(self.order) if var in free), default=0)

    def place(self, var: Var) -> int | None:
        """The depth of a loop; None for what is no loop."""
        return self.order.index(var) if var in self.order else None


@dataclass(frozen=True, slots=True)
class Plan:
    """A root: ``tensor`` is taken at ``index`` where ``guards`` hold.

    ``kept``: for a reduction, the index of its result. ``over``: the variables that it folds. ``needs``: reductions
    that it waits for. ``loops``: the loops around it, outermost first; ``steps``: for each of them the step of the body
    around it, and the step in the innermost body.
    """

    op: NodeId
    tensor: NodeId
    index: tuple[Form, ...]
    guards: tuple[Guard, ...]
    kept: tuple[Form, ...] = ()
    over: frozenset[Var] = frozenset()
    needs: tuple[NodeId, ...] = ()
    loops: tuple[Var, ...] = ()
    steps: tuple[int, ...] = ()

    @property
    def level(self) -> int:
        """How many loops are around the place where a reduction starts and is finished."""
        return next((k for k, var in enumerate(self.loops) if var in self.over), len(self.loops))

    @property
    def inside(self) -> tuple[Var, ...]:
        """Loops that a reduction keeps and that run inside one that it folds: it has an accumulator for each."""
        return tuple(var for var in self.loops[self.level :] if var not in self.over)

    @property
    def is_fold(self) -> bool:
        """Is it a reduction? (One that folds no loop is no root: its result is its element.)"""
        return bool(self.over)

    @property
    def free(self) -> frozenset[Var]:
        return free_of((*self.index, *(guard.form for guard in self.guards)))


def free_of(forms: Iterable[Form]) -> frozenset[Var]:
    return frozenset[Var]().union(*(form.free for form in forms))


def plan_roots(
    graph: Graph, ops: Sequence[NodeId], reference: Reference, loops: Space, anchored: Places = lambda op: None
) -> dict[NodeId, Plan]:
    """Where each store and each reduction runs; steps are not yet known. Raises CannotLower.

    ``anchored``: where a store runs that lies inside another one's memory, if it is known. A reduction over single
    elements is left out.
    """
    found: dict[NodeId, Plan] = {}
    for op in ops:
        if isinstance(graph.what(op), core.Reduce):
            plan = _reduction(graph, op, reference, loops)
            if plan.over:
                found[op] = plan
        else:
            found[op] = _store(graph, op, reference, loops, anchored)
    whole = {op: replace(plan, needs=tuple(_needs(graph, op, found))) for op, plan in found.items()}
    return {op: _outside_of_loops(graph, plan, whole) if reference.reduced else plan for op, plan in whole.items()}


def _reduction(graph: Graph, op: NodeId, reference: Reference, loops: Space) -> Plan:
    shape, dims = space_of(graph, op), reduced_dims(graph, op)
    _check_covered(op, shape, reference)
    placed = place(shape, reference, loops.index)
    inside = free_of(placed.index[k] for k in dims)
    kept = tuple(form for k, form in enumerate(placed.index) if k not in dims)
    if mixed := _mixed([placed.index[k] for k in sorted(dims)], kept):
        raise CannotLower(f"{op}: the loop over {min(v.name for v in mixed)} mixes what it folds and what it keeps")
    guards = _guards(placed.index, placed.guards, loops, shape)
    over = (inside | free_of(guard.form for guard in placed.guards)) - free_of(kept)
    return Plan(op, graph.operands(op)[0], placed.index, guards, kept, over)


def _mixed(folded: Sequence[Form], kept: Sequence[Form]) -> frozenset[Var]:
    """Loops that a reduction would both fold and keep.

    A loop that it keeps may shift those that it folds, as an aligned split's row does: where the kept index tells its
    iteration, the shift is one number, and the folded loops still go once through all elements.
    """
    own = free_of(kept)
    mixed = free_of(folded) & own
    if not mixed <= frozenset[Var]().union(*map(_told, kept)):
        return mixed
    left = (atom for form in folded for atom, _ in form.terms if not _free(atom) <= own)
    return frozenset[Var]().union(*map(_free, left)) & own


def _free(atom: Var | Div | Mod) -> frozenset[Var]:
    return Form.of(atom).free


def _told(form: Form) -> frozenset[Var]:
    """The variables of a form that is a number in mixed radix: its value tells each of them."""
    reach, found = 0, set[Var]()
    for atom, c in sorted(form.terms, key=lambda term: abs(term[1])):
        if not isinstance(atom, Var) or abs(c) <= reach:
            return frozenset()
        reach += abs(c) * (atom.extent - 1)
        found.add(atom)
    return frozenset(found)


def _store(graph: Graph, op: NodeId, reference: Reference, loops: Space, anchored: Places) -> Plan:
    value, target = graph.operands(op)
    shape = graph.layout(target).shape
    _check_covered(op, shape, reference)
    found = (None if reference.reduced else anchored(op)) or place(shape, reference, loops.index)
    guards = _sunk(found.index, found.guards, loops)
    return Plan(op, value, found.index, _guards(found.index, guards, loops, shape))


def _outside_of_loops(graph: Graph, plan: Plan, plans: Mapping[NodeId, Plan]) -> Plan:
    """A store of one element stands in no loop and is nobody's in particular, unless it takes a result that is."""
    if plan.is_fold or graph.layout(graph.operands(plan.op)[1]).numel != 1:
        return plan
    if any(free_of(plans[need].kept) for need in plan.needs):
        return plan
    return replace(plan, index=tuple(Form() for _ in plan.index), guards=())


def _sunk(index: Sequence[Form], guards: Sequence[Guard], loops: Space) -> tuple[Guard, ...]:
    """Without the guards that pick the first iteration of inner loops: the store follows those loops instead."""
    left = list(guards)
    for guard in reversed(guards):
        rest = [g for g in left if g != guard]
        free = free_of((*index, *(g.form for g in rest)))
        outside = loops.depth(free)
        places = [loops.place(var) for var in guard.form.free]
        if guard.extent == 1 and not guard.form.const and all(k is not None and k >= outside for k in places):
            left = rest
    return tuple(left)


def _check_covered(op: NodeId, shape: tuple[int, ...], reference: Reference) -> None:
    if not reference.has_room(shape):
        raise CannotLower(f"{op} runs over {list(shape)}, more than the loops over {list(reference.shape)} have")


def _guards(index: Sequence[Form], guards: Sequence[Guard], loops: Space, shape: Sequence[int]) -> tuple[Guard, ...]:
    """The root's own guards, and the bounds of the loops that it runs in."""
    free = free_of((*index, *(guard.form for guard in guards)))
    # A bound on what is nothing of this root's (another axis, or the place in a row of which it knows only the row)
    # has a variable that the root does not. What it says of the root's own variables is that its index stays in its
    # shape: an outer loop may have passes in which no inner one runs.
    bounds = [bound for bound in loops.bounds if bound.form.free & free]
    wanted = [*guards, *(bound for bound in bounds if bound.form.free <= free)]
    if any(not bound.form.free <= free for bound in bounds):
        wanted += [Guard(form, n) for form, n in zip(index, shape, strict=True)]
    found = open_guards(wanted)
    return (Guard(Form(), 0),) if found is None else found


def _needs(graph: Graph, op: NodeId, roots: Mapping[NodeId, Plan]) -> list[NodeId]:
    """Reductions whose results the root takes, not counting those behind other reductions."""
    found: dict[NodeId, None] = {}
    seen: set[NodeId] = set()
    todo = [graph.operands(op)[0]]
    while todo:
        tensor = todo.pop()
        if tensor in seen or not graph.is_value(tensor):
            continue
        seen.add(tensor)
        node = graph.producer(tensor)
        if node in roots:
            found[node] = None
        else:
            todo += graph.operands(node)
    return list(found)


# ---- the order of loops -------------------------------------------------------------------------------------------


def order_loops(graph: Graph, loops: Space, plans: Iterable[Plan], most: int = MOST_ACCUMULATORS) -> tuple[Var, ...]:
    """The schedule's order, changed as little as it takes for every reduction to run inside what it keeps.

    It may keep loops inside of those that it folds as far as it needs ``most`` accumulators at once.
    """
    after: dict[Var, set[Var]] = {var: set() for var in loops.order}
    who: dict[tuple[Var, Var], NodeId] = {}
    for plan in plans:
        for inner in plan.over & after.keys():
            for outer in _outside(graph, plan, inner, loops.order, most):
                after[inner].add(outer)
                who[outer, inner] = plan.op
    order: list[Var] = []
    while len(order) < len(loops.order):
        ready = next((var for var in loops.order if var not in order and after[var] <= set(order)), None)
        if ready is None:
            stuck = next(pair for pair in who if not set(pair) & set(order))
            raise CannotLower(f"{who[stuck]} keeps a loop that another reduction folds around it")
        order.append(ready)
    return tuple(order)


def _outside(graph: Graph, plan: Plan, inner: Var, order: Sequence[Var], most: int) -> Iterator[Var]:
    """Loops that the reduction keeps and that must run around ``inner``, which it folds."""
    first = min(order.index(var) for var in plan.over if var in order)
    kept = [var for var in order if var in plan.free and var not in plan.over]
    late = [var for var in kept if order.index(var) > first]
    what = graph.what(plan.op)
    if (isinstance(what, core.Reduce) and what.is_arg) or prod(var.extent for var in late) > most:
        yield from kept
    else:
        yield from (var for var in kept if var not in late)


# ---- steps --------------------------------------------------------------------------------------------------------


def set_steps(plans: Mapping[NodeId, Plan], loops: Space, blocks: frozenset[Var] = frozenset()) -> dict[NodeId, Plan]:
    """Loops and steps of every root: the first steps for reductions, the last for stores. Raises CannotLower.

    A root stands in the loops of its own index; only what a reduction needs of another one may be around it besides.
    Reductions over ``blocks`` of a grid that do not wait for one another are finished in one step.
    """
    found = {op: replace(plan, loops=tuple(v for v in loops.order if v in plan.free)) for op, plan in plans.items()}
    steps = {op: [0] * (len(plan.loops) + 1) for op, plan in found.items()}
    _settle(found, steps)
    for together in _at_once(found, blocks):
        last = max(steps[op][0] for op in together)
        for op in together:
            steps[op][0] = last
        _settle(found, steps)
    _delay(found, steps)
    return {op: replace(plan, steps=tuple(steps[op])) for op, plan in found.items()}


def _settle(plans: Mapping[NodeId, Plan], steps: dict[NodeId, list[int]]) -> None:
    """Steps rise until every root comes after what it waits for."""
    most = 2 * len(plans) + 1
    changed = True
    while changed:
        changed = False
        for op, plan in plans.items():
            for need in plan.needs:
                changed |= _push(plan, plans[need], steps[op], steps[need], most)


def _at_once(plans: Mapping[NodeId, Plan], blocks: frozenset[Var]) -> list[list[NodeId]]:
    """Reductions over blocks, outside of loops, by how many of their kind they wait for, one after another."""
    waits: dict[NodeId, int] = {}

    def wait(op: NodeId) -> int:
        if op not in waits:
            own = bool(plans[op].over & blocks)
            waits[op] = own + max((wait(need) for need in plans[op].needs), default=0)
        return waits[op]

    found = [op for op, plan in plans.items() if plan.is_fold and plan.over & blocks and not plan.level]
    return [[op for op in found if wait(op) == k] for k in sorted({wait(op) for op in found})]


def _push(plan: Plan, need: Plan, mine: list[int], its: list[int], most: int) -> bool:
    """One round for a root and a reduction that it waits for; True when a step rose."""
    before, end = (list(mine), list(its)), need.level
    if plan.loops[:end] != need.loops[:end]:
        raise CannotLower(f"{plan.op} needs {need.op} outside of the loops that it is made in")
    for k in range(end):
        mine[k] = its[k] = max(mine[k], its[k])
    mine[end] = max(mine[end], its[end] + 1)
    if max(mine) > most:
        raise CannotLower(f"{plan.op} needs {need.op} in a later pass, where no loop makes it")
    return before != (mine, its)


def _delay(plans: Mapping[NodeId, Plan], steps: dict[NodeId, list[int]]) -> None:
    """Stores go into the last step that they may: loads of what they overwrite, in any earlier one, come before."""
    deepest = max(map(len, steps.values()), default=0)
    for k in range(deepest):
        for op, plan in plans.items():
            own = steps[op]
            if plan.is_fold or k >= len(plan.loops) or any(plans[need].level > k for need in plan.needs):
                continue
            alike = (
                s[k] for other, s in steps.items()
                if len(plans[other].loops) > k and s[:k] == own[:k] and plans[other].loops[:k] == plan.loops[:k]
            )  # fmt: skip
            own[k] = max(alike)


# ---- guards -------------------------------------------------------------------------------------------------------


def open_guards(guards: Iterable[Guard]) -> tuple[Guard, ...] | None:
    """The guards that intervals do not prove; None when they refute one."""
    left: list[Guard] = []
    for guard in guards:
        low, high = guard.form.bounds
        if high < 0 or low >= guard.extent or guard.extent <= 0:
            return None
        if (low < 0 or high >= guard.extent) and guard not in left:
            left.append(guard)
    return tuple(left)
