"""Verdicts against every pair of iterations of small loops."""

import itertools
import random

import pytest

from fusekit.index import Form, Var, number_var
from fusekit.ir import Guard
from fusekit.memory import Access, Race, Unless, Verdict, race, remedies
from fusekit.memory.access import BACKWARD, BEFORE_INNER, BEFORE_LOOP, FORWARD, SNAPSHOT


def var(name, extent):
    return Form.of(Var(name, extent))


def random_form(rng, variables, unit):
    form = Form.of(unit * rng.randint(-2, 8))
    for v in variables:
        if rng.random() < 0.75:
            atom = Form.of(v)
            if rng.random() < 0.2:
                atom = atom + rng.randint(0, 3)
                atom = atom // 2 if rng.random() < 0.5 else atom % 2
            form = form + atom * (unit * rng.choice([1, -1, 2, 3, 4, 6, 12]))
    return form


def random_access(rng, loop, parameters, depth, like=None):
    inner = (Var("r0", 2),) if rng.random() < 0.3 else ()
    scope = (*loop[:depth], *inner)
    width = rng.choice([1, 2, 4, 4, 4])
    address = random_form(rng, (*scope, *parameters), rng.choice([1, width, width]))
    if like is not None and rng.random() < 0.5:
        address, width = like.address + rng.choice([0, 0, width, -width, 6]), like.width
    guards = []
    if rng.random() < 0.4:
        guards.append(Guard(random_form(rng, (*scope, *parameters), 1), rng.randint(1, 4)))
    if rng.random() < 0.2:
        guards.append(Unless((Guard(random_form(rng, scope, 1), 2), Guard(random_form(rng, scope, 1), 3))))
    return Access("@0", address, width, (-1000, 1000), tuple(guards), depth)


def holds(guard, env):
    if isinstance(guard, Unless):
        return not all(holds(g, env) for g in guard.guards)
    return 0 <= guard.form.evaluate(env) < guard.extent


def events(access, loop, fixed):
    """(iteration, byte) of all that the access touches."""
    scope = [*loop, *(v for v in free_of(access) if v not in loop and v.name not in fixed)]
    for values in itertools.product(*(range(v.extent) for v in scope)):
        env = {**{v.name: x for v, x in zip(scope, values, strict=True)}, **fixed}
        if all(holds(g, env) for g in access.guards):
            at = access.address.evaluate(env)
            for byte in range(at, at + access.width):
                yield tuple(env[v.name] for v in loop), byte


def free_of(access):
    forms = [access.address]
    for guard in access.guards:
        forms += [g.form for g in (guard.guards if isinstance(guard, Unless) else (guard,))]
    return sorted(set().union(*(f.free for f in forms)), key=lambda v: v.name)


def conflicts(load, store, loop, parameters):
    """Pairs of iterations, cut to the loops around the load, that touch one byte."""
    found = set()
    for values in itertools.product(*(range(p.extent) for p in parameters)):
        fixed = {p.name: x for p, x in zip(parameters, values, strict=True)}
        readers = {}
        for at, byte in events(load, loop, fixed):
            readers.setdefault(byte, set()).add(at[: load.depth])
        for at, byte in events(store, loop, fixed):
            found |= {(reader, at[: load.depth]) for reader in readers.get(byte, ())}
    return found


def check(verdict, load, store, loop, parameters, threads=frozenset()):
    pairs = conflicts(load, store, loop, parameters)
    across = {(x, y) for x, y in pairs if x != y}
    if verdict is None or verdict.verdict is Verdict.NEVER:
        assert not pairs
        return
    assert verdict.verdict is not Verdict.TOO_HARD
    if verdict.verdict is Verdict.SAME_ITERATION:
        assert not across
        return
    assert pairs, "a race where nothing meets"
    if verdict.remedy in (BEFORE_LOOP, BEFORE_INNER):
        assert not across
        return
    assert across
    outside = [k for k, v in enumerate(loop) if v not in threads]
    if threads:
        assert verdict.together == all(x[k] == y[k] for x, y in across for k in outside if k < len(x))
        return
    assert verdict.forward == all(x < y for x, y in across)
    assert verdict.backward == all(x > y for x, y in across)


@pytest.mark.parametrize("seed", range(8))
def test_every_verdict_is_that_of_all_iterations(seed):
    rng = random.Random(seed)
    for _ in range(110):
        loop = tuple(Var(f"i{k}", rng.randint(1, 4)) for k in range(rng.randint(1, 2)))
        parameters = (number_var(0, 3),) if rng.random() < 0.3 else ()
        store = random_access(rng, loop, parameters, len(loop))
        depth = rng.randint(0, len(loop))
        load = random_access(rng, loop, parameters, depth, store if depth == len(loop) else None)
        check(race(load, store, loop), load, store, loop, parameters)


@pytest.mark.parametrize("seed", range(8))
def test_who_meets_inside_one_block(seed):
    rng = random.Random(1000 + seed)
    for _ in range(60):
        loop = tuple(Var(f"i{k}", rng.randint(1, 4)) for k in range(rng.randint(1, 3)))
        threads = frozenset(v for v in loop if rng.random() < 0.6)
        store = random_access(rng, loop, (), len(loop))
        load = random_access(rng, loop, (), len(loop), store)
        check(race(load, store, loop, threads=threads), load, store, loop, (), threads)


ROWS, COLUMNS = Var("i0", 8), Var("i1", 8)
i, j = Form.of(ROWS), Form.of(COLUMNS)


def access(address, guards=(), depth=99):
    return Access("@0", address, 4, (0, 256), guards, depth)


@pytest.mark.parametrize(
    ("load", "store", "verdict", "remedy"),
    [
        (i * 4, i * 4, Verdict.SAME_ITERATION, "none needed"),
        (i * 8, i * 8 + 4, Verdict.NEVER, "none needed"),
        (i * 4, i * 4 + 4, Verdict.ACROSS, BACKWARD),
        (i * 4 + 4, i * 4, Verdict.ACROSS, FORWARD),
        (i * -4 + 28, i * 4, Verdict.ACROSS, SNAPSHOT),
        (i * 32 + j * 4, i * 4 + j * 32, Verdict.ACROSS, SNAPSHOT),
        (i * 32 + j * -4 + 28, i * 32 + j * 4, Verdict.ACROSS, SNAPSHOT),
        (j * 4 + 32, i * 32 + j * 4, Verdict.ACROSS, SNAPSHOT),
    ],
)
def test_the_usual_maps(load, store, verdict, remedy):
    loop = (ROWS, COLUMNS) if COLUMNS in store.free else (ROWS,)
    found = race(access(load), access(store), loop)
    assert found is not None
    (settled,), *_ = remedies([found])
    assert (settled.verdict, settled.remedy) == (verdict, remedy)


def test_shifts_that_run_over_the_end_of_a_row():
    rows, columns = loop = (Var("i0", 3), Var("i1", 4))
    for steps in ((16, 4), (16, -4), (-16, 4), (32, 8), (4, 12)):
        store = access(Form.of(rows) * steps[0] + Form.of(columns) * steps[1])
        for k in range(-6, 7):
            load = access(store.address + 4 * k)
            check(race(load, store, loop), load, store, loop, ())


def test_reads_before_the_loops_inside():
    row = race(access(i * 32, depth=1), access(i * 32 + j * 4), (ROWS, COLUMNS))
    assert row is not None and row.remedy == BEFORE_INNER
    element = race(access(Form.of(0), depth=0), access(i * 32 + j * 4), (ROWS, COLUMNS))
    assert element is not None and element.remedy == BEFORE_LOOP
    assert remedies([row, element], ordered=False).snapshots == frozenset()


def test_a_guard_keeps_apart_what_addresses_do_not():
    first, second = Guard(i, 4), Guard(i + -4, 4)
    found = race(access(i * 4 + 16, (first,)), access(i * 4, (first,)), (ROWS,))
    assert found is not None and found.verdict is Verdict.NEVER
    found = race(access(i * 4 + 16, (first,)), access(i * 4, (second,)), (ROWS,))
    assert found is not None and found.verdict is Verdict.ACROSS and found.forward
    found = race(access(i * 4 + 16, (first,)), access(i * 4, (Unless((first,)),)), (ROWS,))
    assert found is not None and found.verdict is Verdict.ACROSS


def test_what_a_variable_is_does_not_follow_from_its_name():
    inner, same = Form.of(Var("n0", 8)), Form.of(Var("k", 8, "number"))
    found = [race(access(v * 4 + i * 4), access(v * 4 + i * 4), (ROWS,)) for v in (inner, same)]
    assert [one is not None and one.verdict for one in found] == [Verdict.ACROSS, Verdict.SAME_ITERATION]


def test_a_parameter_has_one_value_for_both_sides():
    n = Form.of(number_var(0, 8))
    found = race(access(n * 32 + i * 4), access(n * 32 + i * 4), (ROWS,))
    assert found is not None and found.verdict is Verdict.SAME_ITERATION
    found = race(access(n * 32 + i * 4 + 32), access(n * 32 + i * 4), (ROWS,))
    assert found is not None and found.verdict is Verdict.NEVER
    found = race(access(i * 4), access(n * 4 + i * 4), (ROWS,))
    assert found is not None and found.verdict is Verdict.ACROSS and not found.forward and found.backward


def test_data_dependent_and_too_hard_are_snapshots():
    gather = Access("@0", None, 4, (0, 32))
    found = race(gather, access(i * 4), (ROWS,))
    assert found is not None and found.verdict is Verdict.TOO_HARD
    hard = race(access(i * -4 + 28), access(i * 4), (ROWS,), budget=1)
    assert hard is not None and hard.verdict is Verdict.TOO_HARD
    assert remedies([found, hard]).snapshots == {gather, hard.load}
    assert race(Access("@1", None, 4, (0, 32)), access(i * 4), (ROWS,)) is None


def test_the_order_with_fewer_snapshots_wins():
    store = access(i * 4)
    races = [race(access(i * 4 + k * 4), store, (ROWS,)) for k in (1, -1, -2)]
    found = remedies(r for r in races if r)
    assert found.backward and found.snapshots == {access(i * 4 + 4)}
    assert [r.remedy for r in found.races] == [SNAPSHOT, BACKWARD, BACKWARD]
    assert len(remedies(found.races, ordered=False).snapshots) == 0, "settled races stay settled"
    assert len(remedies((r for r in races if r), ordered=False).snapshots) == 3


def test_a_store_outside_the_loads_loop_is_unordered():
    found = race(access(i * 32 + j * 4), access(i * 32, depth=1), (ROWS, COLUMNS))
    assert isinstance(found, Race) and found.verdict is Verdict.ACROSS and not (found.forward or found.backward)
