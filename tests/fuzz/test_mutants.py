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

PROGRAMS = 300
OURS = ("TypeError", "AttributeError", "NameError")
JOB = Job("plain", shrinks=False)
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
Patch = pytest.MonkeyPatch
MUTANTS: dict[str, Callable[[Patch], None]] = {}


def mutant(break_it: Callable[[Patch], None]) -> Callable[[Patch], None]:
    MUTANTS[break_it.__name__] = break_it
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


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    found = _first_failure(JOB)
    assert found is not None, f"{PROGRAMS} programs do not notice: {name}"
    assert not any(word in found.words for word in OURS), f"the mutant itself is broken: {found.words}"


def _first_failure(job: Job) -> Failure | None:
    found = (run_seed(seed, job)[1] for seed in range(PROGRAMS))
    return next((failure for failure in found if failure), None)
