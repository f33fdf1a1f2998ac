"""Is the fuzz alive? Rules are broken one by one, and each time some of the 300 programs must tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from fusekit.index import Form
from fusekit.memory import Kind
from fusekit.testing.fuzz_seed import Job, run_seed
from fusekit.testing.fuzz_state import Failure

order, functionalize, versions = (
    import_module(f"fusekit.passes.{name}") for name in ("order", "functionalize", "versions")
)
hazards, kernel, remedies = (import_module(f"fusekit.lower.{name}") for name in ("hazards", "kernel", "remedies"))
outputs, plan = (import_module(f"fusekit.run.{name}") for name in ("outputs", "plan"))
jit = import_module("fusekit.jit")
guards, handed, shadow, sites = (
    import_module(f"fusekit.trace.{name}") for name in ("guards", "handed", "shadow", "sites")
)

PROGRAMS = 300
OURS = ("TypeError", "AttributeError", "NameError")
PLAIN, NUMBERS = (Job("plain", shrinks=False, numbers=numbers) for numbers in (False, True))
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
Patch = pytest.MonkeyPatch
Mutant = Callable[[Patch], None]
MUTANTS: dict[str, tuple[Mutant, Job]] = {}


def mutant(break_it: Mutant) -> Mutant:
    MUTANTS[break_it.__name__] = break_it, PLAIN
    return break_it


def of_numbers(break_it: Mutant) -> Mutant:
    """A rule that the programs with numbers hold."""
    MUTANTS[break_it.__name__] = break_it, NUMBERS
    return break_it


@mutant
def overlap_says_disjoint(patch: Patch) -> None:
    """A read that a pending write answers in part takes what was there before."""
    relate = versions.relate

    def blind(layout: Any, region: Any) -> Any:
        found = relate(layout, region)
        return replace(found, kind=Kind.DISJOINT) if found.kind is Kind.PARTIAL else found

    patch.setattr(versions, "relate", blind)


@mutant
def partial_is_taken_as_inside(patch: Patch) -> None:
    relate = versions.relate

    def hasty(layout: Any, region: Any) -> Any:
        found = relate(layout, region)
        return replace(found, kind=Kind.INSIDE) if found.kind is Kind.PARTIAL else found

    patch.setattr(versions, "relate", hasty)


@mutant
def windows_are_of_the_first_element(patch: Patch) -> None:
    window = functionalize.Values.window

    def shifted(self: Any, value: Any, index: Any, shape: Any) -> Any:
        return window(self, value, tuple(Form.of(0) for _ in index), shape)

    patch.setattr(functionalize.Values, "window", shifted)


@mutant
def flushes_leave_dependents_behind(patch: Patch) -> None:
    patch.setattr(versions.Memory, "_dependents", lambda self, dying, chosen: iter(()))


@mutant
def library_calls_need_no_flush(patch: Patch) -> None:
    flush = versions.Memory.flush

    def lazy(self: Any, blocks: Any, reason: Any, *rest: Any, **named: Any) -> None:
        flush(self, () if reason.name == "flush-library-call" else blocks, reason, *rest, **named)

    patch.setattr(versions.Memory, "flush", lazy)


@mutant
def epochs_stand_still(patch: Patch) -> None:
    """What was loaded before a library call wrote is taken for what is there after it."""
    load = functionalize.Values.load
    patch.setattr(functionalize.Values, "load", lambda self, block, epoch, layout: load(self, block, 0, layout))


@mutant
def versions_stand_still(patch: Patch) -> None:
    """A read that was resolved once is never resolved anew."""
    resolve = versions.Memory._resolve

    def stale(self: Any, state: Any, layout: Any, upto: int) -> Any:
        version, state.version = state.version, 0
        try:
            return resolve(self, state, layout, min(upto, len(state.writes)))
        finally:
            state.version = version

    patch.setattr(versions.Memory, "_resolve", stale)


@mutant
def orders_are_left_out(patch: Patch) -> None:
    """A store, or a library call, does not wait for those before it on the same bytes."""
    patch.setattr(order.Orders, "follow", lambda *args, **kwargs: None)


@mutant
def races_never_happen(patch: Patch) -> None:
    """Every load and every store of a kernel are taken to share no byte."""
    patch.setattr(hazards, "_meetings", lambda *args: iter(()))


@mutant
def snapshots_are_left_out(patch: Patch) -> None:
    """Loads whose race only a copy cures read what the stores have overwritten; stores that should wait do not."""
    protect = hazards.protect

    def careless(nest: Any, ordered: bool) -> Any:
        return replace(protect(nest, ordered), nest=nest, snapshots=(), kept={}, later=())

    for module in (hazards, kernel, remedies):
        patch.setattr(module, "protect", careless, raising=False)


@mutant
def accidents_are_fused(patch: Patch) -> None:
    patch.setattr(functionalize._Walk, "_is_accident", lambda self, call, written, reads: False)


@mutant
def versions_are_not_bumped(patch: Patch) -> None:
    patch.setattr(outputs, "bump", lambda *args: None)
    patch.setattr(plan, "bump", lambda *args: None)
    patch.setattr(plan, "direct", lambda *args: None)  # the short way has a bump of its own


@mutant
def the_key_ignores_aliases(patch: Patch) -> None:
    """The trap of compilers that guard shapes only: the second call runs the plan of the first."""
    signature = jit.signature

    def blind(recording: Any) -> Any:
        signed, numbers = signature(recording)
        return replace(signed, pattern=()), numbers

    patch.setattr(jit, "signature", blind)


@of_numbers
def cut_windows_move(patch: Patch) -> None:
    """What the end of the tensor cut off is missing elsewhere, too."""
    patch.setattr(
        handed, "_is_whole", lambda item, call: None not in (item.start, item.stop) and 0 <= item.start <= item.stop
    )


@of_numbers
def equal_numbers_are_one(patch: Patch) -> None:
    """A slot moves though a site of it has no free number."""
    patch.setattr(shadow.Script, "_fixed", lambda self, taken: set())


@of_numbers
def numbers_are_found_by_value(patch: Patch) -> None:
    """What takes a number is guessed: a site of the same value, if it has only one such number."""

    def guessed(call: Any, given: Any, made: Any, now: Any) -> Any:
        found: dict[Any, Any] = {}
        for k, (_, its) in enumerate(made):
            for site in its:
                fits = [path for path, value in given.items() if value == site.value]
                if len(fits) == 1:
                    found.setdefault(fits[0], (k, site))
        return found

    patch.setattr(shadow, "handed_on", guessed)


@of_numbers
def nobody_asks_where_a_view_begins(patch: Patch) -> None:
    """as_strided, and views of wider elements, are taken to be legal at any offset."""
    patch.setattr(sites, "_asks_where", lambda call, now: False)


@of_numbers
def any_index_is_in_range(patch: Patch) -> None:
    patch.setattr(shadow, "_is_taken", lambda value, extent, most: True)


@of_numbers
def the_last_number_of_a_slot_wins(patch: Patch) -> None:
    class Forgetful(dict[int, Any]):
        def setdefault(self, key: int, default: Any = None) -> Any:
            self[key] = default
            return default

    make = shadow._Shadow.__init__

    def forget(self: Any, *args: Any) -> None:
        make(self, *args)
        self.found = Forgetful()

    patch.setattr(shadow._Shadow, "__init__", forget)


@of_numbers
def a_plan_serves_any_numbers(patch: Patch) -> None:
    patch.setattr(jit._Kept, "serves", lambda self, numbers: True)


@of_numbers
def the_key_knows_numbers_by_type(patch: Patch) -> None:
    token = guards.token
    patch.setattr(guards, "token", lambda value: (type(value),) if type(value) in (int, float) else token(value))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    break_it, job = MUTANTS[name]
    break_it(monkeypatch)
    found = _first_failure(job)
    assert found is not None, f"{PROGRAMS} programs do not notice: {name}"
    assert not any(word in found.words for word in OURS), f"the mutant itself is broken: {found.words}"


def _first_failure(job: Job) -> Failure | None:
    found = (run_seed(seed, job)[1] for seed in range(PROGRAMS))
    return next((failure for failure in found if failure), None)
