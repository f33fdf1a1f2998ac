"""The second front door: ``jit`` makes a callable that does what the function does, by plans that it keeps.

A call looks up its key (layouts, dtypes, overlap pattern, guarded Python values). A known key runs its plan. An unknown
one is recorded; if the recording differs from a known one only in numbers, the two share one plan that takes these
numbers as parameters. After ``PATTERNS`` overlap patterns of one program the generic plan takes over: ops that touch the
overlapping tensors run one by one, in program order, on real memory; the rest stays fused.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from fusekit.exploration import Exploration
from fusekit.passes import Functionalize
from fusekit.pipeline import Options, lower_graph, plan_of, run_passes
from fusekit.run.compile import clear_cache
from fusekit.run.decode import symbols
from fusekit.run.plan import LastRun, Plan, execute
from fusekit.trace import Argument, Recording, differing, generalise, record, signature
from fusekit.trace.graph_of import graph_of
from fusekit.trace.guards import Key, Looked
from fusekit.trace.predicate import Predicate, predicate_of

__all__ = ["CacheInfo", "JitFunction", "clear_cache", "jit", "last_run"]

PATTERNS, PLANS, KEYS = 8, 64, 1024
_this_thread = threading.local()


class CacheInfo(NamedTuple):
    """``plans`` are kept now, ``recordings`` were made in all, ``hits`` calls found their key at once."""

    hits: int
    recordings: int
    plans: int
    generic_plans: int


@dataclass(frozen=True, eq=False)
class _Plan:
    """A plan with the recording it was made from; ``values`` are the numbers at the slots that are no parameters.

    ``involved``: for a generic plan the inputs that may overlap in any way, else None.
    """

    plan: Plan
    recording: Recording
    exploration: Exploration
    values: tuple[object, ...]
    involved: frozenset[int] | None = None

    def serves(self, numbers: Sequence[object]) -> bool:
        return not set(differing(self.values, numbers)) - set(self.recording.parameters)


@dataclass(frozen=True, eq=False)
class _Entry:
    """What a known key runs: a plan, the numbers of that key, how to put the outputs together."""

    plan: Plan
    numbers: tuple[Any, ...]
    objects: Mapping[str, object]
    spec: TreeSpec
    under_no_grad: bool
    recording: Recording
    owner: _Plan
    pins: tuple[object, ...]


class JitFunction:
    """A compiled function. ``last_run`` counts the launches of the last call (None before it, and after one that raised)."""

    def __init__(self, fn: Callable[..., object], options: Options):
        functools.update_wrapper(self, fn, updated=())
        self._fn, self._options = fn, options
        self._lock = threading.RLock()
        self._key = Key()
        self._entries: OrderedDict[object, _Entry] = OrderedDict()
        self._plans: OrderedDict[object, list[_Plan]] = OrderedDict()  # by signature
        self._patterns: dict[object, dict[object, None]] = {}  # by signature without its overlap pattern
        self._fast: tuple[Predicate, _Entry] | None = None
        self._hits = self._recordings = 0
        self.last_run: LastRun | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.last_run = _this_thread.last_run = None
        fast = self._fast
        if fast is not None and not kwargs and (inputs := fast[0](args)) is not None:
            self._hits += 1
            return self._execute(fast[1], inputs, args)
        with self._lock:
            entry, looked = self._find(args, kwargs)
            inputs = looked.inputs(entry.recording)
            predicate = predicate_of(self._key, entry.recording, args, kwargs)
            self._fast = (predicate, entry) if predicate is not None else None
        return self._execute(entry, inputs, looked.leaves)

    def _execute(self, entry: _Entry, inputs: Sequence[torch.Tensor], leaves: Sequence[object]) -> Any:
        objects = symbols(entry.objects, leaves) if entry.objects else ()
        if entry.under_no_grad:  # the recording proved that nothing that leaves carries a gradient
            with torch.no_grad():
                flat = execute(entry.plan, inputs, entry.numbers, objects)
        else:
            flat = execute(entry.plan, inputs, entry.numbers, objects)
        self.last_run = _this_thread.last_run = entry.plan.counts
        return tree_unflatten(flat, entry.spec)

    # ---- finding a plan

    def _find(self, args: Sequence[object], kwargs: Mapping[str, object]) -> tuple[_Entry, Looked]:
        looked = self._look(args, kwargs)
        entry = self._entries.get(looked.key) if looked is not None else None
        if entry is not None and looked is not None:
            self._hits += 1
            self._entries.move_to_end(looked.key)
            return entry, looked
        recording = record(self._fn, args, kwargs)
        self._recordings += 1
        self._key.learn(recording)
        looked = self._key.look(args, kwargs)
        entry = self._entry(recording, looked)
        self._entries[looked.key] = entry
        while len(self._entries) > KEYS:
            self._entries.popitem(last=False)
        return entry, looked

    def _look(self, args: Sequence[object], kwargs: Mapping[str, object]) -> Looked | None:
        """The call's key; None where a tensor has none (sparse, say): the recorder refuses it by name."""
        try:
            return self._key.look(args, kwargs)
        except (RuntimeError, NotImplementedError):
            return None

    def _entry(self, recording: Recording, looked: Looked) -> _Entry:
        signed, numbers = signature(recording)
        found = self._plan(recording, signed, numbers)
        taken = tuple(numbers[slot] for slot in found.recording.parameters)
        return _Entry(
            found.plan, taken, recording.objects, recording.out_spec, recording.grad, recording, found, looked.pins
        )

    def _plan(self, recording: Recording, signed: Any, numbers: tuple[Any, ...]) -> _Plan:
        pattern, layouts = signed.pattern, signed.without_pattern
        seen = self._patterns.setdefault(layouts, {})
        if pattern not in seen and len(seen) >= PATTERNS:
            return self._generic(recording, layouts, pattern, numbers)
        seen[pattern] = None
        return self._shared(signed, recording, numbers, self._compile)

    def _shared(
        self,
        key: object,
        recording: Recording,
        numbers: tuple[Any, ...],
        make: Callable[[Recording, tuple[Any, ...]], _Plan],
    ) -> _Plan:
        """A plan of this signature that serves these numbers: a known one, the first, or a more general one."""
        plans = self._plans.setdefault(key, [])
        self._plans.move_to_end(key)
        found = next((p for p in plans if p.serves(numbers)), None)
        if found is None:
            which = {slot for p in plans for slot in (*p.recording.parameters, *differing(p.values, numbers))}
            found = make(generalise(recording, which) if which else recording, numbers)
            plans.append(found)
            self._evict()
        return found

    def _evict(self) -> None:
        """At most PLANS plans; the signature that was used longest ago goes first."""
        while sum(map(len, self._plans.values())) > PLANS:
            _, gone = self._plans.popitem(last=False)
            self._entries = OrderedDict((k, e) for k, e in self._entries.items() if e.owner not in gone)

    def _compile(self, recording: Recording, numbers: tuple[Any, ...]) -> _Plan:
        steps = run_passes(recording.graph, self._options)
        compiled = lower_graph(steps[-1].graph)
        plan = plan_of(steps[-1].graph, compiled, recording.graph)
        return _Plan(plan, recording, Exploration(self._fn, (), {}, self._options, recording, steps, [plan]), numbers)

    def _generic(
        self, recording: Recording, layouts: object, pattern: tuple[Any, ...], numbers: tuple[Any, ...]
    ) -> _Plan:
        """Inputs that overlap are blocks of their own, whose ops run one by one: right for any overlap among them."""
        patterns = (*self._patterns[layouts], pattern)
        involved = frozenset(k for seen in patterns for pair in seen for k in pair[:2])
        key = ("generic", layouts, involved)

        def make(recording: Recording, numbers: tuple[Any, ...]) -> _Plan:
            apart = replace(recording, graph=graph_of(recording.program, recording.sites, apart=True))
            inputs = apart.graph.inputs()
            opaque = frozenset(b for k in involved if (b := apart.graph.block_of(inputs[k])) is not None)
            passes = tuple(
                replace(p, opaque=opaque) if isinstance(p, Functionalize) else p for p in self._options.passes
            )
            made = JitFunction._compile(self._with(passes), apart, numbers)
            return replace(made, involved=involved)

        return self._shared(key, recording, numbers, make)

    def _with(self, passes: tuple[Any, ...]) -> JitFunction:
        return JitFunction(self._fn, replace(self._options, passes=passes))

    # ---- what it knows

    def explorations(self) -> tuple[Exploration, ...]:
        """One for each plan that is kept, the latest used last. They have no arguments of their own: give ``run`` some."""
        return tuple(p.exploration for plans in self._plans.values() for p in plans)

    def cache_info(self) -> CacheInfo:
        plans = [p for some in self._plans.values() for p in some]
        generic = sum(p.involved is not None for p in plans)
        return CacheInfo(self._hits, self._recordings, len(plans), generic)

    def __repr__(self) -> str:
        info = self.cache_info()
        name = getattr(self._fn, "__qualname__", type(self._fn).__name__)
        return f"<fusekit.jit {name}: {info.plans} plans, {info.recordings} recordings, {info.hits} hits>"


def jit(fn: Callable[..., Any] | None = None, *, options: Options | None = None, **changes: Any) -> Any:
    """A callable that does what ``fn`` does, fused. ``changes`` are fields of Options: ``fk.jit(f, strict=True)``.

    Raises at the call: what eager raises, or UnsupportedError (with the user's line) where eager would succeed.
    """
    chosen = replace(options or Options(), **changes)
    if fn is None:
        return lambda function: JitFunction(function, chosen)
    return JitFunction(fn, chosen)


def last_run() -> LastRun | None:
    """What the last compiled call of this thread launched; None where it raised or where there was none."""
    return getattr(_this_thread, "last_run", None)
