"""``record``: a function on these arguments, as a Recording. Touches nothing that the function can reach."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import UnsupportedFakeTensorException, UnsupportedOperatorException
from torch.utils._pytree import keystr

from fusekit.errors import UnsupportedError
from fusekit.ir import Origin
from fusekit.trace import naming, refusals
from fusekit.trace.ambient import Ambience, ambient
from fusekit.trace.border import STAYS, Border, holder_of
from fusekit.trace.effects import put_versions_back, sentence
from fusekit.trace.entries import SIMPLE, Entry, fact
from fusekit.trace.foreach import expanded
from fusekit.trace.foreign import Seen, Unobserved
from fusekit.trace.graph_of import PLAIN, graph_of
from fusekit.trace.interrupts import Held
from fusekit.trace.nested import is_stand_in, keyed_leaves
from fusekit.trace.origin import line_of, user_origin
from fusekit.trace.private import C
from fusekit.trace.program import Call, ObjectRef, Place, Program, Ref
from fusekit.trace.quiet import quiet
from fusekit.trace.reach import Reach, code_names
from fusekit.trace.recorder import NEEDS_DATA, Recorder
from fusekit.trace.recording import Argument, Capture, Constant, Output, Recording, Source
from fusekit.trace.results import refuse_suspended, take_apart
from fusekit.trace.swap import UNBROKEN, Swap
from fusekit.trace.watcher import Watcher, resuming

Leaves = Sequence[tuple[str, Any]]  # (path, value) of the flattened (args, kwargs)


def record(
    fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, seen: Seen | None = None
) -> Recording:
    """The program that ``fn(*args, **kwargs)`` runs.

    ``seen``: what a watched run of it saw of foreign ops. With it (it may be empty), Unobserved is raised where the
    function fails after a foreign op that was not seen. Else raises what eager raises for these arguments, or
    UnsupportedError with the user's line where eager would succeed and no recording can stand for the function.
    """
    with Held(*UNBROKEN) as held, Border() as border:
        ambience, watcher = Ambience(), Watcher()
        try:
            return _record(fn, tuple(args), dict(kwargs or {}), seen, watcher, held, border)
        except BaseException:
            ambience.put_back(watcher.settings, is_whole=True)
            raise


def _record(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    seen: Seen | None,
    watcher: Watcher,
    held: Held,
    border: Border,
) -> Recording:
    if C._functorch.peek_interpreter_stack() is not None:
        raise UnsupportedError("a call inside a torch.func transform", user_origin(), "apply the transform inside")
    refuse_suspended(fn, line_of(fn))
    leaves = _leaves(fn, args, kwargs)
    odd = [(path, x) for path, x in leaves if not isinstance(x, (torch.Tensor, torch.Generator, *SIMPLE))]
    reach = Reach(fn, [args, kwargs], odd)
    for path, leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            reach.watch_tensor(leaf, f"argument {path}")
    recorder = Recorder(border, _record.__code__, seen or ())
    names = naming.argument_names(fn, args, kwargs)
    for position, (_, leaf) in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            recorder.fake(leaf, f"argument {names[position]}")
        elif isinstance(leaf, torch.Generator):
            recorder.object_ref(leaf, f"leaf:{position}")
    arguments = set(recorder.swapped)
    generators = [leaf for _, leaf in leaves if isinstance(leaf, torch.Generator)]
    reach.contents.watch_generators([*generators, *reach.generators])
    swap = Swap(recorder, held)
    ran = _run(fn, args, kwargs, swap, reach, watcher)
    _raise_for(ran, recorder, watcher, fn, seen is not None, held.has_raised)
    out = ran.out
    names_read = code_names(watcher.codes)
    guards = _guards(reach, recorder, watcher, names_read, line_of(fn))
    _refuse_attributes(leaves, names_read, line_of(fn))
    _refuse_iterators(fn, [*reach.iterators(), *(path for path, leaf in odd if isinstance(leaf, Iterator))])
    out_leaves, spec = take_apart(out, (args, kwargs), border.is_fresh, reach.knows, line_of(fn))
    results = tuple(_result(recorder, leaf) for leaf in out_leaves)
    out_fakes = tuple(recorder.fake(leaf) if isinstance(leaf, torch.Tensor) else None for leaf in out_leaves)
    del ran, out, out_leaves
    _refuse_survivors(recorder, border, fn)
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
        out_fakes,
        codes=frozenset(watcher.codes),
        is_wide=watcher.is_wide,
        foreign=tuple(recorder.foreign),
    )


def _leaves(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Leaves:
    try:
        return [(keystr(path), leaf) for path, leaf in keyed_leaves((args, kwargs))[0]]
    except RecursionError:
        what = "an argument that contains itself, or is nested too deep"
        raise UnsupportedError(what, line_of(fn), "pass its tensors in a flat list") from None


# ---- running the function


@dataclass(frozen=True)
class _Ran:
    """A function that was run on stand-ins: what it gave or raised, and what it changed of Python, now put back."""

    out: Any
    failed: BaseException | None
    changes: list[str]


def _run(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    swap: Swap,
    reach: Reach,
    watcher: Watcher,
) -> _Ran:
    recorder, held = swap.recorder, swap.held
    watcher.is_paused = lambda: recorder.is_asking
    reach.contents.begin(watcher)
    out, failed = None, None
    resume, argument = resuming(sys.getprofile())
    with quiet(), recorder.fakes, recorder, swap:
        ambience, held.caller = Ambience(), sys._getframe()
        sys.setprofile(watcher)  # in this very frame, as is its end: a profiler counts calls and returns
        try:
            out = fn(*args, **kwargs)
        except BaseException as error:  # raised again, after everything is as it was
            failed = error
        held.caller = None
        resume(argument)
        ambience.put_back(watcher.settings, is_whole=failed is not None)
    of_recording = functools.partial(is_stand_in, stand_ins=recorder.border.stand_ins)
    changes = reach.contents.put_back(watcher, of_recording) + watcher.reseeded
    watcher.edits.clear()  # they hold what the function held
    pairs = [(t, recorder.versions[key]) for key, (t, _) in recorder.swapped.items()]
    return _Ran(out, failed, changes + put_versions_back(pairs, watcher))


def _raise_for(
    ran: _Ran, recorder: Recorder, watcher: Watcher, fn: Callable[..., Any], is_guess: bool, was_interrupted: bool
) -> None:
    """What eager raises, or why no recording can stand for the function."""
    failed = ran.failed
    if failed is not None and not isinstance(failed, Exception):
        raise failed
    if recorder.refused is not None:
        raise recorder.refused
    if watcher.unrepeatable and failed is None:
        call, line = watcher.unrepeatable[0]
        fix = "call it outside of the function, and pass what it gives as an argument"
        raise UnsupportedError(f"{call}(), whose answer or effect a recording would freeze,", line, fix)
    if failed is not None:
        if is_guess and tuple(recorder.foreign) != recorder.seen[: len(recorder.foreign)]:
            raise Unobserved from failed
        raise _translated(failed)
    if was_interrupted:
        raise UnsupportedError("an interrupt that the function went on after", line_of(fn), "call it again")
    if ran.changes:
        fix = "return the new values instead; everything was put back"
        raise UnsupportedError(f"the function changes Python state: {sentence(ran.changes)}", line_of(fn), fix)


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
        if type(leaf) is int and leaf in recorder.handles:
            raise UnsupportedError("a result that is the id() or hash() of a tensor", None, "return the tensor")
        return leaf
    fake = recorder.fake(leaf)
    if fake.requires_grad and torch.is_grad_enabled() and id(leaf) not in recorder.swapped:
        number = recorder.ref(fake).index
        where = next((call.origin for call in reversed(recorder.calls) if number in call.results), None)
        raise UnsupportedError("a result that requires grad", where, refusals.OR_NO_GRAD)
    if not recorder.is_known(fake):
        raise UnsupportedError("a result that no recorded op made", None, "make it with torch ops inside the function")
    if id(leaf) in recorder.handles and vars(leaf):
        what = f"a result with a Python attribute, {next(iter(vars(leaf)))},"
        raise UnsupportedError(what, recorder.origin_of(fake), "return it beside the tensor")
    return recorder.ref(fake)


def _refuse_survivors(recorder: Recorder, border: Border, fn: Any) -> None:
    """The border of the recording: raise where something outside still holds what stood for a tensor of it."""
    fakes = {key: fake for key, (_, fake) in recorder.handles.items()}
    recorder.let_go()
    left = border.close()
    if left:
        what = f"a tensor that the function made stays behind in {holder_of(left[0], left)}, which"
        raise UnsupportedError(what, recorder.origin_of(fakes.get(id(left[0]))) or line_of(fn), STAYS)


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
    found += [entry for logger in watcher.loggers.values() for entry in _levels(logger)]
    tensors = [entry for entry in found if isinstance(entry.value, torch.Tensor)]
    took_part = {entry for entry in tensors if id(entry.value) in recorder.swapped or entry.key == "grad"}
    return [entry for entry in found if entry not in took_part]


def _levels(logger: Any) -> Iterator[Entry]:
    """What decides whether a logger says anything."""
    yield fact("attr", logger.manager, "disable", "logging.disable", None)
    while logger is not None:
        for name in ("level", "disabled"):
            yield fact("attr", logger, name, f"the {name} of the logger {logger.name}", None)
        logger = logger.parent


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
