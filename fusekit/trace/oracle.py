"""Eager's own errors, asked of eager: the op runs on private storages of the same layouts."""

from __future__ import annotations

import contextlib
import enum
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import _disable_current_modes

from fusekit.dtypes import U8
from fusekit.ir import Layout
from fusekit.memory import is_dense
from fusekit.ops.extern import raises_on_data
from fusekit.trace.nested import mapped, tensors_in
from fusekit.trace.program import Place
from fusekit.trace.quiet import kept_warnings
from fusekit.trace.schema import base_name, bound
from fusekit.trace.writes import Others

_CPU = torch.device("cpu")
_PIVOTS = frozenset(("pivots", "LU_pivots"))  # row numbers from 1 that LAPACK trusts: of 0 it writes before the matrix
LIMIT = 64 << 20  # bytes of storage that one question may allocate


class Verdict(enum.Enum):
    """What eager says, where it does not raise."""

    FINE = enum.auto()
    TOO_LARGE = enum.auto()
    UNASKED = enum.auto()  # its answer would draw numbers that are the program's


def device_for(func: OpOverload, t: torch.Tensor) -> torch.device:
    """Where to ask: the tensor's device, but the CPU for an op that raises on data. On a GPU a bad index is no error to
    catch: it stops the device."""
    return _CPU if raises_on_data(str(func)) else t.device


def ask_eager(
    func: OpOverload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    room: Callable[[torch.Tensor], int],
) -> Exception | Verdict:
    """What eager raises for these layouts, dtypes and aliases whatever the data is.

    Runs on zeros, then on ones: only an error of one type both times is decided by metadata. ``room`` gives the
    bytes of a tensor's storage. No number is drawn from the generators of the program.
    """
    tensors = list(tensors_in([list(args), dict(kwargs)]))
    if sum({t.untyped_storage()._cdata: room(t) for t in tensors}.values()) > LIMIT:
        return Verdict.TOO_LARGE
    if _draws_unasked(func):
        return Verdict.UNASKED
    kwargs = _with_own_generator(func, kwargs)
    with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad(), _states_kept():
        zeros, ones = (_try(func, args, kwargs, room, filling) for filling in (0, 1))
    return zeros if zeros is not None and type(zeros) is type(ones) else Verdict.FINE


_SMALL = frozenset((torch.Tag.pointwise, torch.Tag.core))  # what may run in a kernel of ours
_raises: dict[Any, Exception | None] = {}
_strides: dict[Any, tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] | None] = {}
_KEPT = 1 << 14  # answers
_UNASKED: Any = object()


def may_raise(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Exception | None:
    """What eager raises for these dtypes and numbers on tensors of one element: a reason to ask in full, since fakes do
    not say, and a fused kernel would compute on. Asked once for each overload, dtypes and kinds of numbers."""
    tensors = list(tensors_in([list(args), dict(kwargs)]))
    if func._schema.is_mutable or not (is_filling(func) or (tensors and _may_depend(func, args, kwargs))):
        return None
    if _draws_unasked(func):
        return None
    if is_filling(func):  # one element is filled in another way than several
        args = [[min(size, 2) for size in value] if isinstance(value, (list, tuple)) else value for value in args]
    rest = [value for value in (*args, *kwargs.values()) if not isinstance(value, torch.Tensor)]
    key = (func, tuple((t.dtype, t.dim(), t.device) for t in tensors), tuple(map(_kind, rest)), tuple(kwargs))
    known = _raises.get(key, _UNASKED)
    if known is not _UNASKED:
        return known

    def one(t: torch.Tensor) -> torch.Tensor:
        return torch.ones((1,) * t.dim(), dtype=t.dtype, device=device_for(func, t))

    with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
        answer = _answer(func, mapped(tuple(args), one), mapped(dict(kwargs), one))
    return _keep(_raises, key, answer if isinstance(answer, Exception) else None)


def is_filling(func: OpOverload) -> bool:
    """Does the op make a tensor of one number? Eager's error is then known from few of them."""
    return base_name(func) in ("full", "new_full", "scalar_tensor")


def _may_depend(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """May a kernel of ours run it, or does it take a number where its schema has a scalar or a tensor?"""
    if _SMALL.intersection(func.tags):
        return True
    numbers = [argument for argument, value in bound(func, args, kwargs) if type(value) in (bool, int, float)]
    return any(str(argument.type) in ("number", "Optional[number]", "Tensor") for argument in numbers)


def _kind(value: Any) -> Any:
    """Values of one kind are all too large for a dtype, or none is."""
    if type(value) is int:
        return int, value < 0, (value if value >= 0 else ~value).bit_length()
    if type(value) is float:
        if not math.isfinite(value):
            return float, str(value)
        tops = [abs(value) > torch.finfo(dtype).max for dtype in (torch.float16, torch.bfloat16, torch.float32)]
        return float, _kind(int(value))[1:], tuple(tops)
    if isinstance(value, list):
        return tuple(map(_kind, value))
    return (type(value), value) if isinstance(value, (bool, str, torch.dtype)) else type(value)


def strides_of(
    func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], room: Callable[[torch.Tensor], int]
) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] | None:
    """(shape, strides) of each result in eager; None where the fakes' own are trusted: operands that are all
    contiguous, views, writing ops, operators of other libraries (they may do anything), and what is too large to ask.

    Large pointwise operands are asked about with every size above 1 shrunk to 2.
    """
    tensors = list(tensors_in([list(args), dict(kwargs)]))
    plain = all(t.is_contiguous() for t in tensors) or any(a.alias_info for a in func._schema.arguments)
    if plain or func.namespace != "aten" or func._schema.is_mutable or _draws_unasked(func):
        return None
    small = sum(room(t) for t in tensors) <= _QUICK
    if not small and torch.Tag.pointwise not in func.tags:
        return None
    layouts = tuple((t.dtype, t.shape, t.stride(), t.device) for t in tensors)
    rest = [value for value in (*args, *kwargs.values()) if not isinstance(value, torch.Tensor)]
    key = (func, layouts, str(rest), tuple(kwargs))
    known = _strides.get(key, _UNASKED)
    if known is not _UNASKED:
        return known
    with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
        return _keep(_strides, key, _asked_strides(func, args, kwargs, tensors, small))


_QUICK = 1 << 20  # bytes that are asked about as they are


def _asked_strides(
    func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], tensors: Sequence[torch.Tensor], small: bool
) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] | None:
    made: dict[int, torch.Tensor] = {}

    def dummy(t: torch.Tensor) -> torch.Tensor:
        if id(t) not in made:
            shape, strides = (tuple(t.shape), t.stride()) if small else shrunk(t)
            filled = torch.empty_strided(shape, strides, dtype=t.dtype, device=device_for(func, t))
            made[id(t)] = filled.as_strided((filled.untyped_storage().nbytes() // t.element_size(),), (1,)).fill_(1)
            made[id(t)] = made[id(t)].as_strided(shape, strides)
        return made[id(t)]

    answer = _answer(func, mapped(tuple(args), dummy), mapped(dict(kwargs), dummy))
    if isinstance(answer, Exception):
        return None
    found = list(tensors_in(answer))
    if any(t.layout != torch.strided for t in found):
        return None
    if small:
        return tuple((tuple(t.shape), t.stride()) for t in found)
    shape = tuple(torch.broadcast_shapes(*(t.shape for t in tensors)))
    grown = [grown_strides(shape, t.stride()) for t in found if t.dim() == len(shape)]
    return tuple((shape, g) for g in grown) if len(grown) == len(found) else None


def mixed_answer(
    func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], room: Callable[[torch.Tensor], int]
) -> Any:
    """What eager gives for floating operands of several element types, where stand-ins have rules of their own for the
    results' (norms of halves with float weights); None where these are trusted, and where eager raises."""
    tensors = list(tensors_in([list(args), dict(kwargs)]))
    if len({t.dtype for t in tensors}) < 2 or not all(t.is_floating_point() for t in tensors):
        return None
    if func.namespace != "aten" or torch.Tag.pointwise in func.tags or _draws_unasked(func):
        return None
    if sum(room(t) for t in tensors) > LIMIT:
        return None

    def made(t: torch.Tensor) -> torch.Tensor:
        return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=device_for(func, t)).fill_(1)

    with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
        answer = _answer(func, mapped(tuple(args), made), mapped(dict(kwargs), made))
    return None if isinstance(answer, Exception) else answer


def shrunk(t: torch.Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides with sizes of 2 for all above 1, the order of the strides, zeros and gaps kept."""
    shape = tuple(min(size, 2) for size in t.shape)
    order = sorted(range(t.dim()), key=lambda d: (t.stride(d), t.shape[d] > 1))
    step, strides = 1 if is_dense(Layout.of(0, t.shape, t.stride(), U8)) else 2, [0] * t.dim()
    for d in order:
        if t.stride(d):
            strides[d] = step
            step *= shape[d]
    return shape, tuple(strides)


def grown_strides(shape: Sequence[int], small: Sequence[int]) -> tuple[int, ...]:
    """Dense strides of ``shape`` in the order of those of its shrunk shape, where a stride of 2^j has j dims inside."""
    inner = [shape[d] for d in sorted(range(len(shape)), key=small.__getitem__) if shape[d] > 1]
    return tuple(math.prod(inner[: stride.bit_length() - 1]) for stride in small)


def _keep(answers: dict[Any, Any], key: Any, answer: Any) -> Any:
    """The answer. Another thread may empty the table at any time."""
    if len(answers) >= _KEPT:
        answers.clear()
    answers[key] = answer
    return answer


def _answer(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What eager gives or raises."""
    kwargs = _with_own_generator(func, kwargs)
    try:
        with _states_kept():
            return quietly(lambda: func(*args, **kwargs))
    except Exception as error:  # whatever eager raises is the answer: kept, without the frames that hold arguments
        error.__context__ = error.__cause__ = None
        return error.with_traceback(None)


def _draws_unasked(func: Any) -> bool:
    """Would the op draw from the default generator, whatever it is given? All threads share that one: a number that is
    drawn from it is taken from them, and a state that is put back lets them draw theirs again."""
    return torch.Tag.nondeterministic_seeded in getattr(func, "tags", ()) and not _has_generator(func)


def _has_generator(func: Any) -> bool:
    return any(argument.name == "generator" for argument in func._schema.arguments)


def _with_own_generator(func: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by name with a generator of our own, where the op takes one."""
    if not isinstance(func, OpOverload) or not _has_generator(func):
        return {key: None if isinstance(value, torch.Generator) else value for key, value in kwargs.items()}
    given = kwargs.get("generator")
    return {**kwargs, "generator": torch.Generator(_CPU if given is None else given.device)}


@contextlib.contextmanager
def _states_kept() -> Iterator[None]:
    """What an op draws without telling so is given back, unless another thread may have drawn since."""
    others = Others()
    states = [(generator, generator.get_state()) for generator in default_generators()]
    try:
        yield
    finally:
        for generator, state in states:
            if not torch.equal(generator.get_state(), state) and not others.have_run():
                generator.set_state(state)


def quietly(call: Callable[[], Any]) -> Any:
    """What ``call`` gives, without the warnings of torch's C++: they would be about a question of ours.

    They are kept until the innermost binding returns, which here is one of our own.
    """
    found: list[Any] = []

    def once(number: float) -> float:
        found.append(call())
        return number

    with kept_warnings():
        torch.zeros(1, dtype=torch.float32, device=_CPU).apply_(once)
    return found[0]


def default_generators() -> list[torch.Generator]:
    """The generators that torch draws from by default, on every device in use."""
    found = [torch.default_generator]
    if torch.cuda.is_initialized():
        found += list(torch.cuda.default_generators)
    return found


def layouts_after(
    func: OpOverload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    written: Sequence[torch.Tensor],
    before: Sequence[Place],
    room: Callable[[torch.Tensor], int],
) -> list[tuple[tuple[int, ...], tuple[int, ...]]] | None:
    """(shape, strides) that eager gives the ``written`` destinations, which were at ``before``; None where it raises,
    and where the question would be too large."""
    tensors = list(tensors_in([list(args), dict(kwargs)]))
    if sum({t.untyped_storage()._cdata: room(t) for t in tensors}.values()) > LIMIT:
        return None
    made: dict[int, torch.Tensor] = {}
    with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
        for t, place in zip(written, before, strict=True):
            made[id(t)] = torch.empty_strided(place.sizes, place.strides, dtype=t.dtype, device=t.device)

        def dummy(t: torch.Tensor) -> torch.Tensor:
            if id(t) not in made:
                made[id(t)] = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=device_for(func, t))
                made[id(t)].fill_(1)
            return made[id(t)]

        answer = _answer(func, mapped(tuple(args), dummy), mapped(dict(kwargs), dummy))
    if isinstance(answer, Exception):
        return None
    return [(tuple(made[id(t)].shape), made[id(t)].stride()) for t in written]


def writes_out(
    func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], room: Callable[[torch.Tensor], int]
) -> bool | None:
    """Does a torch function write its ``out=`` in eager? None where it raises, or where there is too much to ask."""
    tensors = list(tensors_in([list(args), dict(kwargs)]))
    if sum({t.untyped_storage()._cdata: room(t) for t in tensors}.values()) > LIMIT:
        return None
    with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
        made: dict[int, torch.Tensor] = {}

        def dummy(t: torch.Tensor) -> torch.Tensor:
            if id(t) not in made:
                made[id(t)] = torch.ones(t.shape, dtype=t.dtype, device=t.device)
            return made[id(t)]

        outs = [dummy(t).fill_(77) for t in tensors_in(kwargs["out"])]
        answer = _answer(func, mapped(tuple(args), dummy), mapped(dict(kwargs), dummy))
        return None if isinstance(answer, Exception) else not all(bool((t == 77).all()) for t in outs)


def _try(
    func: OpOverload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    room: Callable[[torch.Tensor], int],
    filling: int,
) -> Exception | None:
    storages: dict[int, torch.UntypedStorage] = {}
    made: dict[int, torch.Tensor] = {}  # by object, so that one object stays one object
    pivots = {id(value) for argument, value in bound(func, args, kwargs) if argument.name in _PIVOTS}

    def dummy(t: torch.Tensor) -> torch.Tensor:
        if id(t) not in made:
            key, device = t.untyped_storage()._cdata, device_for(func, t)
            if key not in storages:
                count = -(-room(t) // t.element_size())
                number = 1 if id(t) in pivots else filling
                filled = torch.full((count,), number, dtype=t.dtype, device=device)
                storages[key] = filled.untyped_storage()
            empty = torch.empty(0, dtype=t.dtype, device=device)
            made[id(t)] = empty.set_(storages[key], t.storage_offset(), t.shape, t.stride())
        return made[id(t)]

    try:
        quietly(lambda: func(*mapped(tuple(args), dummy), **mapped(dict(kwargs), dummy)))
    except torch.linalg.LinAlgError:  # pyright: ignore[reportPrivateImportUsage]  # decided by data
        return None
    except Exception as error:  # whatever eager raises is the answer
        return error
    return None
