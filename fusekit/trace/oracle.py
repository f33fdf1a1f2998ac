"""Eager's own errors, asked of eager: the op runs on private storages of the same layouts."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import _disable_current_modes

from fusekit.trace.nested import mapped, tensors_in

LIMIT = 64 << 20  # bytes of storage that one question may allocate


class Verdict(enum.Enum):
    """What eager says, where it does not raise."""

    FINE = enum.auto()
    TOO_LARGE = enum.auto()


def ask_eager(
    func: OpOverload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    room: Callable[[torch.Tensor], int],
) -> Exception | Verdict:
    """What eager raises for these layouts, dtypes and aliases whatever the data is.

    Runs on zeros, then on ones: only an error of one type both times is decided by metadata. ``room`` gives the
    bytes of a tensor's storage. The generators' states are put back.
    """
    tensors = list(tensors_in([list(args), dict(kwargs)]))
    if sum({t.untyped_storage()._cdata: room(t) for t in tensors}.values()) > LIMIT:
        return Verdict.TOO_LARGE
    kwargs = {key: None if isinstance(value, torch.Generator) else value for key, value in kwargs.items()}
    generators = default_generators()
    with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
        states = [generator.get_state() for generator in generators]
        zeros, ones = (_try(func, args, kwargs, room, filling) for filling in (0, 1))
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)
    return zeros if zeros is not None and type(zeros) is type(ones) else Verdict.FINE


_FUSED = frozenset((torch.Tag.pointwise, torch.Tag.core))  # what may run in a kernel of ours
_missing: dict[Any, bool] = {}


def lacks_kernel(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Has eager no kernel for these dtypes? (Fakes do not say; a fused kernel would compute on.)

    Asked once for each overload and dtypes, of tensors of one element; other errors, of shapes say, do not count.
    """
    tensors = list(tensors_in([list(args), dict(kwargs)]))
    if not tensors or func._schema.is_mutable or not _FUSED.intersection(func.tags):
        return False
    scalars = tuple(type(value) for value in (*args, *kwargs.values()) if not isinstance(value, torch.Tensor))
    key = (func, tuple((t.dtype, t.dim(), t.device) for t in tensors), scalars, kwargs.get("dtype"))
    if key not in _missing:

        def one(t: torch.Tensor) -> torch.Tensor:
            return torch.ones((1,) * t.dim(), dtype=t.dtype, device=t.device)

        with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
            _missing[key] = _is_unimplemented(func, mapped(tuple(args), one), mapped(dict(kwargs), one))
    return _missing[key]


def _is_unimplemented(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    generators = default_generators()
    states = [generator.get_state() for generator in generators]
    try:
        func(*args, **kwargs)
    except Exception as error:
        return "not implemented for" in str(error)
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)
    return False


def default_generators() -> list[torch.Generator]:
    """The generators that torch draws from by default, on every device in use."""
    found = [torch.default_generator]
    if torch.cuda.is_initialized():
        found += list(torch.cuda.default_generators)
    return found


def _try(
    func: OpOverload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    room: Callable[[torch.Tensor], int],
    filling: int,
) -> Exception | None:
    storages: dict[int, torch.UntypedStorage] = {}
    made: dict[int, torch.Tensor] = {}  # by object, so that one object stays one object

    def dummy(t: torch.Tensor) -> torch.Tensor:
        if id(t) not in made:
            key = t.untyped_storage()._cdata
            if key not in storages:
                count = -(-room(t) // t.element_size())
                filled = torch.full((count,), filling, dtype=t.dtype, device=t.device)
                storages[key] = filled.untyped_storage()
            empty = torch.empty(0, dtype=t.dtype, device=t.device)
            made[id(t)] = empty.set_(storages[key], t.storage_offset(), t.shape, t.stride())
        return made[id(t)]

    try:
        func(*mapped(tuple(args), dummy), **mapped(dict(kwargs), dummy))
    except torch.linalg.LinAlgError:  # pyright: ignore[reportPrivateImportUsage]  # decided by data
        return None
    except Exception as error:  # whatever eager raises is the answer
        return error
    return None
