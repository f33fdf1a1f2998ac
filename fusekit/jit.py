"""The second front door: ``jit`` makes a callable that does what the function does, by plans that it keeps.

A call looks up its key (layouts, dtypes, overlap pattern, guarded Python values). A known key runs its plan; from its
second call on, a predicate made for it finds it faster. A key that differs from a known one in numbers only is asked of
that one's script, and of a recording where the function runs otherwise; if a recording differs from a known one only in
numbers, the two share one plan that takes these numbers as parameters. After ``PATTERNS`` overlap patterns of one
program the generic plan takes over: ops that touch the overlapping tensors run one by one, in program order, on real
memory; the rest stays fused.
"""

from __future__ import annotations

import copy
import functools
import operator
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MethodType
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, Unpack, cast, overload

import torch

from fusekit.errors import UnsupportedError
from fusekit.escape import line
from fusekit.exploration import Exploration
from fusekit.kinds import expect, expect_function, expect_names
from fusekit.passes import Functionalize
from fusekit.pipeline import OPTIONS, Changes, Options, lower_graph, plan_of, run_passes
from fusekit.run import zeros
from fusekit.run.compile import clear_cache as forget_kernels
from fusekit.run.cuda import ptx
from fusekit.run.decode import symbols
from fusekit.run.forks import Lock
from fusekit.run.memory import LayoutMismatch
from fusekit.run.plan import LastRun, Plan, execute
from fusekit.run.trial import Trial
from fusekit.trace import Recording, Signature, differing, generalise, record, signature
from fusekit.trace.foreign import Sightings, Unobserved, Watch
from fusekit.trace.graph_of import graph_of
from fusekit.trace.guards import Key, Looked, is_as_recorded
from fusekit.trace.numbers import slots_of
from fusekit.trace.predicate import Predicate, predicate_of
from fusekit.trace.recording import Source
from fusekit.trace.results import Build
from fusekit.trace.shadow import Script
from fusekit.trace.swap import is_inside
from fusekit.trace.told import learn

__all__ = ["CacheInfo", "JitFunction", "clear_cache", "jit", "last_run"]

PATTERNS, PLANS, KEYS, LAYOUTS = 8, 64, 1024, 256
SCRIPTS, BRANCHES = 64, 4  # kept: keys without numbers, and recordings of each
PREDICATES = 4  # asked before the full key, the latest made first
Numbers = tuple[Any, ...]
P = ParamSpec("P")
R = TypeVar("R")


class _Last(threading.local):
    """The counts of this thread's last call."""

    run: LastRun | None = None


_this_thread = _Last()
_made: weakref.WeakSet[JitFunction[..., Any]] = weakref.WeakSet()


class CacheInfo(NamedTuple):
    """``plans`` are kept now, ``recordings`` were made in all, ``hits`` calls found their key at once."""

    hits: int
    recordings: int
    plans: int
    generic_plans: int


@dataclass(frozen=True, eq=False)
class _Kept:
    """A plan with the recording it was made from; ``values`` are the numbers at the slots that are no parameters.

    ``involved``: for a generic plan the inputs that may overlap in any way, else None.
    """

    plan: Plan
    recording: Recording
    exploration: Exploration
    values: Numbers
    involved: frozenset[int] | None = None

    def serves(self, numbers: Numbers) -> bool:
        return not set(differing(self.values, numbers)) - set(self.recording.parameters)


@dataclass(eq=False, slots=True, weakref_slot=True)
class _Known:
    """What a known key runs: a plan, the numbers of that key, how to put the outputs together.

    ``misses``: how often its key was found although the predicate did not answer.
    """

    plan: Plan
    numbers: Numbers
    objects: Mapping[str, object]
    build: Build
    inputs: Sequence[Source]
    is_foreign: bool
    takes_call: bool  # containers of the call's come back
    owner: _Kept
    misses: int = 0
    is_proven: bool = False  # did its library calls give what was recorded?


@dataclass(eq=False, slots=True)
class _Scripts:
    """Recordings whose keys differ in numbers only, the latest first; each becomes a Script when it is first asked."""

    recordings: list[tuple[Recording, Signature, Numbers]]
    made: dict[int, Script]

    def ask(
        self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Recording, Signature, Numbers] | None:
        """The recording that stands for this call too, and the call's numbers."""
        for recording, signed, _ in self.recordings:
            if id(recording) not in self.made:
                self.made[id(recording)] = Script(recording)
            numbers = self.made[id(recording)].numbers(fn, args, kwargs)
            if numbers is not None:
                return recording, signed, numbers
        return None

    def add(self, recording: Recording, signed: Signature, numbers: Numbers) -> None:
        for old, _, _ in self.recordings[BRANCHES - 1 :]:
            self.made.pop(id(old), None)
        self.recordings[:] = [(recording, signed, numbers), *self.recordings[: BRANCHES - 1]]


class _Watched(Exception):
    """This call has to run in eager, watched."""

    def __init__(self, key: object):
        super().__init__()
        self.key = key


class _Unplaced(Exception):
    """An argument is a zero tensor without memory."""


class JitFunction(Generic[P, R]):
    """A compiled function. ``last_run`` counts the launches of this thread's last call of it (None before it, and after
    one that raised)."""

    _watches = True  # are layouts of foreign results taken from a run in eager?

    def __init__(self, fn: Callable[P, R], options: Options):
        expect_function("fk.jit", fn)
        functools.update_wrapper(self, fn, updated=())
        self._fn: Callable[..., Any] = fn
        self._options = options
        self._lock = Lock()
        _made.add(self)
        self._key = Key()
        self._known: OrderedDict[object, _Known] = OrderedDict()
        self._scripts: OrderedDict[object, _Scripts] = OrderedDict()  # by key without numbers
        self._kept: OrderedDict[object, list[_Kept]] = OrderedDict()  # by signature
        self._patterns: OrderedDict[object, dict[tuple[Any, ...], None]] = (
            OrderedDict()
        )  # by signature without its overlap pattern
        self._sightings = Sightings()
        self._fast: tuple[tuple[Predicate, _Known], ...] = ()  # replaced as a whole: read without the lock
        self._hits = self._recordings = 0
        self._last = _Last()

    @property
    def last_run(self) -> LastRun | None:
        """What this thread's last call launched."""
        return self._last.run

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        self._last.run = _this_thread.run = None
        if not kwargs:
            for predicate, entry in self._fast:
                inputs = predicate(args)
                if inputs is not None:
                    self._hits += 1
                    return self._execute(entry, inputs, args)
        if is_inside():  # of another function that is being recorded: a part of it
            return self._fn(*args, **kwargs)
        try:
            with self._lock:
                entry, looked = self._find(args, kwargs)
                tensors = looked.inputs(entry)
        except _Watched as found:
            watched = found.key
        except _Unplaced:
            return zeros.called(self, args, kwargs)
        else:
            return self._run(entry, looked, tensors, args, kwargs)
        return self._watch(watched, args, kwargs)

    def _run(
        self,
        entry: _Known,
        looked: Looked,
        tensors: Sequence[torch.Tensor],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """A found plan. Where a library call gives other tensors than it was recorded with, the call is made again,
        with those: by a new recording, or in eager where foreign ops are watched."""
        trial = None if entry.is_proven else _trial(entry, tensors, looked.leaves)
        try:
            call = (args, kwargs) if entry.takes_call else ()
            out = self._execute(entry, tensors, looked.leaves, call)
        except LayoutMismatch as found:
            if trial is None and (entry.is_proven or entry.plan.ending.written):
                self._unsettle(entry)
                raise  # a second run would write and draw again
            if trial is not None:
                trial.put_back()
            self._unsettle(entry)
            is_new = found.told is not None and learn(*found.told)
            if not (entry.is_foreign and self._watches):
                if not is_new:
                    raise UnsupportedError(found.what, found.where, found.fix) from found
                return cast("Callable[..., Any]", self)(*args, **kwargs)
        else:
            entry.is_proven = True
            return out
        return self._watch(looked.key, args, kwargs)

    def _execute(
        self, entry: _Known, inputs: Sequence[torch.Tensor], leaves: Sequence[object], call: tuple[Any, ...] = ()
    ) -> Any:
        """``call``: the call's args and kwargs, where containers of these may come back."""
        objects = symbols(entry.objects, leaves) if entry.objects else ()
        odd = functools.partial(self._unsettle, entry) if entry.is_foreign else None
        flat = execute(entry.plan, inputs, entry.numbers, objects, odd)
        self._last.run = _this_thread.run = entry.plan.counts
        return entry.build(flat, *call) if call else entry.build(flat)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """In a class body it is a method: ``self`` is its first argument, so instances have keys of their own."""
        if instance is None or not hasattr(type(self._fn), "__get__"):  # a module or a partial binds to nothing
            return self
        return MethodType(self, instance)

    def __reduce__(self) -> Any:
        """By name where the name leads here (as a decorator makes it), else ``jit(fn, options)``; plans stay behind."""
        module = sys.modules.get(getattr(self, "__module__", None) or "")
        name = getattr(self, "__qualname__", "")
        try:
            is_named = bool(name) and operator.attrgetter(name)(module) is self
        except AttributeError:
            is_named = False
        return name if is_named else (JitFunction, (self._fn, self._options))

    def __deepcopy__(self, memo: dict[int, Any]) -> JitFunction:
        return JitFunction(copy.deepcopy(self._fn, memo), self._options)

    # ---- foreign ops, whose layouts only a run tells

    def _watch(self, key: object, args: Sequence[object], kwargs: Mapping[str, object]) -> Any:
        """The call in eager; what its foreign ops answer is what the next recording of this key assumes."""
        watch = Watch()
        with watch:
            out = self._fn(*args, **kwargs)
        with self._lock:
            self._sightings.add(key, tuple(watch.rows))
        self._last.run = _this_thread.run = LastRun(0, watch.calls, 0)
        return out

    def _unsettle(self, entry: _Known) -> None:
        """A foreign op answered otherwise than seen: calls of this plan's keys are watched again."""
        with self._lock:
            for key in [key for key, known in self._known.items() if known.owner is entry.owner]:
                del self._known[key]
                self._sightings.forget(key)
            self._scripts.clear()
            self._fast = tuple(pair for pair in self._fast if pair[1].owner is not entry.owner)

    # ---- finding a plan

    def _find(self, args: Sequence[object], kwargs: Mapping[str, object]) -> tuple[_Known, Looked]:
        looked = self._look(args, kwargs)
        if looked is not None:
            entry = self._known.get(looked.key)
            if entry is not None:
                self._hits += 1
                self._known.move_to_end(looked.key)
                self._quicken(entry, args, kwargs)
                return entry, looked
            scripts = self._scripts.get(looked.without_numbers)
            found = scripts.ask(self._fn, args, kwargs) if scripts is not None else None
            if found is not None:
                return self._keep(looked, self._entry(looked, *found)), looked
        if zeros.are_in((args, kwargs)):
            raise _Unplaced
        key = None if looked is None else looked.key
        recording = self._record(key, args, kwargs)
        self._recordings += 1
        self._slow_down()
        self._key.learn(recording)
        looked = self._key.look(args, kwargs)
        is_of_key = all(map(is_as_recorded, recording.guards))  # else another thread wrote meanwhile
        if recording.foreign and self._watches:
            self._sightings.move(key, looked.key)
            if not self._sightings.is_settled(looked.key, recording.foreign):
                raise _Watched(looked.key)
        signed, numbers = signature(recording)
        entry = self._entry(looked, recording, signed, numbers)
        if is_of_key:
            self._remember(looked, recording, signed, numbers)
            self._keep(looked, entry)
        return entry, looked

    def _record(self, key: object, args: Sequence[object], kwargs: Mapping[str, object]) -> Recording:
        """The function as a recording, with the foreign layouts that were seen for its key. Raises _Watched."""
        if not self._watches:
            return record(self._fn, args, kwargs)
        if self._sightings.is_hopeless(key):
            raise _Watched(key)
        try:
            return record(self._fn, args, kwargs, self._sightings.of(key))
        except Unobserved:
            raise _Watched(key) from None

    def _look(self, args: Sequence[object], kwargs: Mapping[str, object]) -> Looked | None:
        """The call's key; None where a tensor has none (sparse, say): the recorder refuses it by name."""
        try:
            return self._key.look(args, kwargs)
        except (RuntimeError, NotImplementedError):
            return None

    def _quicken(self, entry: _Known, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        """A predicate for a key that was met again. It costs more than a look-up: when it fails for calls of its own
        key, another one is made after twice as many of them."""
        entry.misses += 1
        if entry.misses & (entry.misses - 1) or entry.is_foreign:
            return
        predicate = predicate_of(self._key, entry, args, kwargs, _ending(self, entry))
        if predicate is not None:
            others = [pair for pair in self._fast if pair[1] is not entry]
            self._fast = ((predicate, entry), *others[: PREDICATES - 1])

    def _slow_down(self) -> None:
        """No predicates for now: each holds parts of what was there when it was made, which may have been replaced."""
        for _, entry in self._fast:
            entry.misses = 0
        self._fast = ()

    def _remember(self, looked: Looked, recording: Recording, signed: Signature, numbers: Numbers) -> None:
        """The recording, for calls that differ from this one in the numbers among the arguments."""
        if not any(type(leaf) in (int, float) for leaf in looked.leaves):
            return
        key = looked.without_numbers
        self._scripts.setdefault(key, _Scripts([], {})).add(recording, signed, numbers)
        self._scripts.move_to_end(key)
        if len(self._scripts) > SCRIPTS:
            self._scripts.popitem(last=False)

    def _entry(self, looked: Looked, recording: Recording, signed: Signature, numbers: Numbers) -> _Known:
        found = self._plan(recording, signed, numbers)
        taken = tuple(numbers[slot] for slot in found.recording.parameters)
        build, objects = recording.out_spec.builder(), recording.objects
        foreign, takes_call = bool(recording.foreign), bool(recording.out_spec.given)
        return _Known(found.plan, taken, objects, build, recording.inputs, foreign, takes_call, found)

    def _keep(self, looked: Looked, entry: _Known) -> _Known:
        """The entry of a new key."""
        self._known[looked.key] = entry
        if len(self._known) > KEYS:
            self._known.popitem(last=False)
        return entry

    def _plan(self, recording: Recording, signed: Signature, numbers: Numbers) -> _Kept:
        pattern, layouts = signed.pattern, signed.without_pattern
        seen = self._patterns.setdefault(layouts, {})
        self._patterns.move_to_end(layouts)
        if len(self._patterns) > LAYOUTS:
            self._patterns.popitem(last=False)
        if pattern not in seen and len(seen) >= PATTERNS:
            return self._generic(recording, layouts, pattern, numbers)
        seen[pattern] = None
        return self._shared(signed, recording, numbers, functools.partial(_compiled, self._fn, self._options))

    def _shared(
        self, key: object, recording: Recording, numbers: Numbers, make: Callable[[Recording, Numbers], _Kept]
    ) -> _Kept:
        """A plan of this signature that serves these numbers: a known one, the first, or a more general one.

        ``numbers`` are this call's, which may differ from the recording's: then they are parameters, too.
        """
        plans = self._kept.setdefault(key, [])
        self._kept.move_to_end(key)
        found = next((p for p in plans if p.serves(numbers)), None)
        if found is None:
            which = {slot for p in plans for slot in (*p.recording.parameters, *differing(p.values, numbers))}
            which.update(differing(slots_of(recording.program).values, numbers))
            found = make(generalise(recording, which) if which else recording, numbers)
            plans.append(found)
            self._evict()
        return found

    def _evict(self) -> None:
        """At most PLANS plans; the signature that was used longest ago goes first."""
        while sum(map(len, self._kept.values())) > PLANS:
            _, gone = self._kept.popitem(last=False)
            self._known = OrderedDict((k, e) for k, e in self._known.items() if e.owner not in gone)
            self._fast = tuple(pair for pair in self._fast if pair[1].owner not in gone)

    def _generic(self, recording: Recording, layouts: object, pattern: tuple[Any, ...], numbers: Numbers) -> _Kept:
        """Inputs that overlap are blocks of their own, whose ops run one by one: right for any overlap among them."""
        patterns = (*self._patterns[layouts], pattern)
        involved = frozenset(k for seen in patterns for pair in seen for k in pair[:2])
        key = ("generic", layouts, involved)

        def make(recording: Recording, numbers: Numbers) -> _Kept:
            apart = replace(recording, graph=graph_of(recording.program, recording.sites, apart=True))
            inputs = apart.graph.inputs()
            opaque = frozenset(b for k in involved if (b := apart.graph.block_of(inputs[k])) is not None)
            passes = tuple(
                replace(p, opaque=opaque) if isinstance(p, Functionalize) else p for p in self._options.passes
            )
            made = _compiled(self._fn, replace(self._options, passes=passes), apart, numbers)
            return replace(made, involved=involved)

        return self._shared(key, recording, numbers, make)

    # ---- what it knows

    def forget(self) -> None:
        """Drops every plan, with kernels and recordings: the next calls record anew."""
        with self._lock:
            self._slow_down()
            for kept in (self._known, self._scripts, self._kept, self._patterns):
                kept.clear()
            self._key, self._sightings = Key(), Sightings()

    def explorations(self) -> tuple[Exploration, ...]:
        """One for each plan that is kept, the latest used last. They hold no arguments: give ``run`` some."""
        return tuple(p.exploration for plans in self._kept.values() for p in plans)

    def cache_info(self) -> CacheInfo:
        """Counts of hits, recordings and plans, as ``functools.lru_cache`` has them."""
        plans = [p for some in self._kept.values() for p in some]
        generic = sum(p.involved is not None for p in plans)
        return CacheInfo(self._hits, self._recordings, len(plans), generic)

    def __repr__(self) -> str:
        info = self.cache_info()
        name = getattr(self._fn, "__qualname__", type(self._fn).__name__)
        return f"<fusekit.jit {line(name)}: {info.plans} plans, {info.recordings} recordings, {info.hits} hits>"


def _compiled(fn: Callable[..., object], options: Options, recording: Recording, numbers: Numbers) -> _Kept:
    """Passes, kernels and a plan for a recording of ``fn``."""
    steps = run_passes(recording.graph, options)
    compiled = lower_graph(steps[-1].graph, options.backend, options.precision)
    plan = plan_of(steps[-1].graph, compiled, recording.graph)
    return _Kept(plan, recording, Exploration(fn, (), {}, options, recording, steps, (compiled, plan)), numbers)


@overload
def jit(fn: Callable[P, R], *, options: Options | None = None, **changes: Unpack[Changes]) -> JitFunction[P, R]: ...
@overload
def jit(
    fn: None = None, *, options: Options | None = None, **changes: Unpack[Changes]
) -> Callable[[Callable[P, R]], JitFunction[P, R]]: ...
def _trial(entry: _Known, tensors: Sequence[torch.Tensor], leaves: Sequence[object]) -> Trial | None:
    if not entry.plan.counts.extern_calls:
        return None
    objects = symbols(entry.objects, leaves) if entry.objects else {}
    return Trial.of(entry.owner.recording, tensors, entry.numbers, list(objects.values()))


def jit(fn: Callable[..., Any] | None = None, *, options: Options | None = None, **changes: Any) -> Any:
    """A callable that does what ``fn`` does, fused. ``changes`` are fields of Options: ``fk.jit(f, strict=True)``.

    Raises at the call: what eager raises, or UnsupportedError (with the user's line) where eager would succeed.
    """
    expect("fk.jit", options=(options, OPTIONS))
    expect_names("fk.jit", changes, (f.name for f in fields(Options)))
    chosen = replace(options or Options(), **changes)
    if fn is None:
        return lambda function: JitFunction(function, chosen)
    return JitFunction(fn, chosen)


def last_run() -> LastRun | None:
    """What the last compiled call of this thread launched; None where it raised or where there was none."""
    return _this_thread.run


def forget_last_run() -> None:
    """A call begins that may run without this module: in eager, say."""
    _this_thread.run = None


def clear_cache() -> None:
    """Forgets plans and compiled kernels of every callable, in memory and on disk. What runs now runs on."""
    for function in tuple(_made):
        function.forget()
    forget_kernels()
    ptx.clear_cache()


def _ending(function: JitFunction, entry: _Known) -> Callable[[weakref.ref[Any]], None]:
    """What takes the predicates of an entry away; holds neither of them."""
    callable_of, entry_of = weakref.ref(function), weakref.ref(entry)

    def ends(_: weakref.ref[Any]) -> None:
        function, entry = callable_of(), entry_of()
        if function is not None:
            function._fast = tuple(pair for pair in function._fast if pair[1] is not entry)

    return ends
