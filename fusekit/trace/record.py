"""``record``: a function on these arguments, as a Recording. Touches nothing that the function can reach."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.utils._pytree import keystr, tree_flatten_with_path

from fusekit.errors import UnsupportedError
from fusekit.ir import Origin
from fusekit.trace import naming, refusals
from fusekit.trace.ambient import ambient
from fusekit.trace.effects import RandomStates, Watcher, put_versions_back, sentence
from fusekit.trace.entries import SIMPLE, Entry, fact
from fusekit.trace.foreach import expanded
from fusekit.trace.foreign import Seen, Unobserved
from fusekit.trace.graph_of import PLAIN, graph_of
from fusekit.trace.nested import flat_outputs
from fusekit.trace.origin import line_of, user_origin
from fusekit.trace.private import C
from fusekit.trace.program import Call, ObjectRef, Place, Program, Ref
from fusekit.trace.reach import Reach, code_names
from fusekit.trace.recorder import NEEDS_DATA, Recorder
from fusekit.trace.recording import Argument, Capture, Constant, Output, Recording, Source
from fusekit.trace.swap import Swap

_FAKES_LOG = logging.getLogger("torch._subclasses.fake_tensor")
Leaves = Sequence[tuple[str, Any]]  # (path, value) of the flattened (args, kwargs)


def record(
    fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, seen: Seen | None = None
) -> Recording:
    """The program that ``fn(*args, **kwargs)`` runs.

    ``seen``: what a watched run of it saw of foreign ops. With it (it may be empty), Unobserved is raised where the
    function fails after a foreign op that was not seen. Else raises what eager raises for these arguments, or
    UnsupportedError with the user's line where eager would succeed and no recording can stand for the function.
    """
    args, kwargs = tuple(args), dict(kwargs or {})
    if C._functorch.peek_interpreter_stack() is not None:
        raise UnsupportedError("a call inside a torch.func transform", user_origin(), "apply the transform inside")
    pairs, _ = tree_flatten_with_path((args, kwargs))
    leaves = [(keystr(path), leaf) for path, leaf in pairs]
    odd = [(path, x) for path, x in leaves if not isinstance(x, (torch.Tensor, torch.Generator, *SIMPLE))]
    reach = Reach(fn, [args, kwargs], odd)
    for path, leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            reach.watch_tensor(leaf, f"argument {path}")
    recorder = Recorder(FakeTensorMode(allow_non_fake_inputs=False), record.__code__, seen or ())
    names = naming.argument_names(fn, args, kwargs)
    for position, (_, leaf) in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            recorder.fake(leaf, f"argument {names[position]}")
        elif isinstance(leaf, torch.Generator):
            recorder.object_ref(leaf, f"leaf:{position}")
    arguments = set(recorder.swapped)
    generators = [leaf for _, leaf in leaves if isinstance(leaf, torch.Generator)]
    out, swap, watcher = _run(fn, args, kwargs, recorder, reach, generators, is_guess=seen is not None)
    names_read = code_names(watcher.codes)
    guards = _guards(reach, recorder, watcher, names_read, line_of(fn))
    _refuse_attributes(leaves, names_read, line_of(fn))
    _refuse_iterators(fn, [*reach.iterators(), *(path for path, leaf in odd if isinstance(leaf, Iterator))])
    out_leaves, spec = flat_outputs(out)
    results = tuple(_result(recorder, leaf) for leaf in out_leaves)
    inputs, rows = _inputs(recorder, reach, leaves, arguments, names)
    _refuse_gradients(recorder, fn)
    program, starts = _program(recorder, rows, results, naming.function_name(fn))
    _refuse_mixed_devices(program)
    watched = [entry for t, _ in recorder.swapped.values() for entry in reach.paths(t)]
    return Recording(
        graph_of(program),
        inputs,
        _outputs(results),
        spec,
        tuple(guards),
        tuple(watched),
        ambient(),
        {ref.symbol: _object_source(value, ref) for value, ref in recorder.objects.values()}
        | {f"output:{k}": leaf for k, leaf in enumerate(results) if type(leaf) not in (Ref, *PLAIN)},
        torch.is_grad_enabled(),
        recorder.is_exact,
        program,
        tuple(replace(row, calls=(starts[row.calls[0]], starts[row.calls[1]])) for row in swap.script),
        tuple(fake for _, fake in recorder.swapped.values()),
        recorder.handles,
        tuple(recorder.fake(leaf) if isinstance(leaf, torch.Tensor) else None for leaf in out_leaves),
        codes=frozenset(watcher.codes),
        is_wide=watcher.is_wide,
        foreign=tuple(recorder.foreign),
    )


# ---- running the function


def _run(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    recorder: Recorder,
    reach: Reach,
    generators: list[torch.Generator],
    is_guess: bool,
) -> tuple[Any, Swap, Watcher]:
    states, swap, watcher = RandomStates([*generators, *reach.generators]), Swap(recorder), Watcher()
    watcher.is_paused = lambda: recorder.is_asking
    out, failed = None, None
    with _quiet():
        try:
            with recorder.fakes, recorder, swap, _profiled(watcher):
                out = fn(*args, **kwargs)
        except Exception as error:  # raised again below, after everything is as it was
            failed = error
    changes = reach.contents.put_back() + states.put_back() + watcher.reseeded
    changes += put_versions_back((t, recorder.versions[key]) for key, (t, _) in recorder.swapped.items())
    if recorder.refused is not None:
        raise recorder.refused
    if watcher.unrepeatable and failed is None:
        call, line = watcher.unrepeatable[0]
        fix = "pass its result as an argument"
        raise UnsupportedError(f"{call}(), whose answer a recording would freeze,", line, fix)
    if failed is not None:
        if is_guess and tuple(recorder.foreign) != recorder.seen[: len(recorder.foreign)]:
            raise Unobserved from failed
        raise _translated(failed)
    if changes:
        fix = "return the new values instead; everything was put back"
        raise UnsupportedError(f"the function changes Python state: {sentence(changes)}", line_of(fn), fix)
    return out, swap, watcher


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """No log of errors that eager would raise anyway, and no autocast cache that would keep fakes.

    No garbage collection either: its callbacks would look like calls of the function.
    """
    level, cache, collects = _FAKES_LOG.level, torch.is_autocast_cache_enabled(), gc.isenabled()
    gc.disable()
    _FAKES_LOG.setLevel(logging.CRITICAL)
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        _FAKES_LOG.setLevel(level)
        torch.set_autocast_cache_enabled(cache)
        if collects:
            gc.enable()


@contextlib.contextmanager
def _profiled(watcher: Watcher) -> Iterator[None]:
    before = sys.getprofile()
    sys.setprofile(watcher)
    try:
        yield
    finally:
        sys.setprofile(before)


def _translated(error: Exception) -> Exception:
    """Errors of the fakes that slipped through composites and C++ code, in our words; any other as it is."""
    text = str(error)
    slipped = isinstance(error, (UnsupportedFakeTensorException, UnsupportedOperatorException))
    if slipped or "convert all Tensors to FakeTensors" in text:
        found = UnsupportedError(f"a real tensor got past the recorder: {text[:100]}", None, "pass it as an argument")
    elif "data is not allocated yet" in text or isinstance(error, NEEDS_DATA):
        found = UnsupportedError("tensor data is read inside a library function", None, refusals.OFF_DATA)
    else:
        return error
    found.__cause__ = error
    return found


# ---- what went in and what came out


def _inputs(
    recorder: Recorder, reach: Reach, leaves: Leaves, arguments: set[int], names: Sequence[str]
) -> tuple[tuple[Source, ...], list[tuple[int, str, str]]]:
    """Sources and program rows of arguments, captures and constants, in this order; one a tensor object."""
    sources: list[Source] = []
    rows: list[tuple[int, str, str]] = []
    done: set[int] = set()
    for position, (path, leaf) in enumerate(leaves):
        if isinstance(leaf, torch.Tensor) and id(leaf) not in done:
            done.add(id(leaf))
            sources.append(Argument(position, path))
            rows.append((recorder.ref(recorder.fake(leaf)).index, names[position], "argument"))
    for key, (t, fake) in recorder.swapped.items():
        if key not in arguments:
            entry = _path_of(recorder, reach, t, fake)
            sources.append(Capture(entry))
            rows.append((recorder.ref(fake).index, naming.capture_name(entry.path, leaves, names), "capture"))
    for k, (t, number) in enumerate(recorder.constants):
        sources.append(Constant(t))
        rows.append((number, f"constant{k}", "constant"))
    return tuple(sources), rows


def _path_of(recorder: Recorder, reach: Reach, t: torch.Tensor, fake: torch.Tensor) -> Entry:
    entry = next(iter((*reach.paths(t), *reach.tensors.get(id(t), ()))), None)
    if entry is None:
        number = recorder.ref(fake).index
        where = next((call.origin for call in recorder.calls if number in _numbers_in(call)), None)
        what = f"a captured tensor of shape {tuple(t.shape)} that no path leads to"
        raise UnsupportedError(what, where, "pass it as an argument")
    return entry


def _numbers_in(call: Call) -> set[int]:
    found: set[int] = set()

    def visit(value: Any) -> None:
        if type(value) is Ref:
            found.add(value.index)
        elif isinstance(value, (list, tuple)):
            for item in value:
                visit(item)

    visit([*call.args, *call.kwargs.values()])
    return found


def _result(recorder: Recorder, leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    fake = recorder.fake(leaf)
    if fake.requires_grad and torch.is_grad_enabled() and id(leaf) not in recorder.swapped:
        number = recorder.ref(fake).index
        where = next((call.origin for call in reversed(recorder.calls) if number in call.results), None)
        raise UnsupportedError("a result that requires grad", where, refusals.OR_NO_GRAD)
    if not recorder.is_known(fake):
        raise UnsupportedError("a result that no recorded op made", None, "make it with torch ops inside the function")
    return recorder.ref(fake)


def _refuse_gradients(recorder: Recorder, fn: Any) -> None:
    for t, fake in recorder.swapped.values():
        joined = fake.grad_fn is not None and t.grad_fn is None and t.is_leaf
        if fake.requires_grad != t.requires_grad or joined:
            what = "a caller's tensor would become part of the autograd graph"
            raise UnsupportedError(what, line_of(fn), refusals.OR_NO_GRAD)


def _guards(
    reach: Reach, recorder: Recorder, watcher: Watcher, names_read: frozenset[str], where: Origin | None
) -> list[Entry]:
    """Tensors that took part are watched as such; any other must stay the object that it is, for its identity may
    have been asked. (Gradients come and go.)"""
    found = reach.guards(names_read, watcher.is_wide, where)
    if watcher.reads_environ:
        held = vars(os.environ)["_data"]
        found.append(fact("contents", held, None, "os.environ", None))
    tensors = [entry for entry in found if isinstance(entry.value, torch.Tensor)]
    took_part = {entry for entry in tensors if id(entry.value) in recorder.swapped or entry.key == "grad"}
    return [entry for entry in found if entry not in took_part]


def _refuse_attributes(leaves: Leaves, names_read: frozenset[str], where: Origin | None) -> None:
    """An argument's Python attributes are not in the key."""
    for path, leaf in leaves:
        read = names_read.intersection(leaf.__dict__) if isinstance(leaf, torch.Tensor) else ()
        for name in sorted(read):
            what = f"{name}, a Python attribute of the argument tensor {path},"
            raise UnsupportedError(what, where, "pass it as an argument of its own")


def _refuse_iterators(fn: Any, paths: Sequence[str]) -> None:
    if paths:
        what = f"{paths[0]} is an iterator, whose next items a recording would freeze"
        raise UnsupportedError(what, line_of(fn), "make it inside the function, or pass the items as arguments")


def _refuse_mixed_devices(program: Program) -> None:
    """One device a graph; 0-d CPU tensors among CUDA ones are numbers."""
    places = [*program.first.values(), *(place for call in program.calls for place in call.places)]
    devices = {place.device for place in places if place.sizes or place.device.type != "cpu"}
    if len(devices) > 1:
        what = f"tensors on several devices: {', '.join(sorted(map(str, devices)))}"
        raise UnsupportedError(what, None, "move them to one device first")


def _program(
    recorder: Recorder, rows: list[tuple[int, str, str]], results: tuple[Any, ...], name: str
) -> tuple[Program, list[int]]:
    """The program, and where each recorded call starts in it now that foreach calls are several."""
    now: dict[int, Place] = dict(recorder.first)
    calls: list[Call] = []
    starts: list[int] = []
    rooms = recorder.rooms()
    for call in recorder.calls:
        starts.append(len(calls))
        for single in expanded(call, now, rooms):
            calls.append(single)
            now.update(zip(single.results, single.places, strict=True))
    first = {number: recorder.first[number] for number, _, _ in rows}
    starts.append(len(calls))
    return Program(tuple(calls), first, now, rooms, tuple(rows), results, name), starts


def _outputs(results: tuple[Any, ...]) -> tuple[Output, ...]:
    found, count = [], 0
    for leaf in results:
        is_tensor = type(leaf) is Ref
        found.append(Output(count) if is_tensor else Output(None, leaf))
        count += is_tensor
    return tuple(found)


def _object_source(value: Any, ref: ObjectRef) -> Any:
    return int(ref.symbol.partition(":")[2]) if ref.symbol.startswith("leaf:") else value
