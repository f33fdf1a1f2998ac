"""What an op's target and arguments mean to torch; shared by the interpreter and the plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import torch

from fusekit.dtypes import DType
from fusekit.errors import FusekitError
from fusekit.index import Form
from fusekit.ir import core
from fusekit.ir.arguments import Arg, Guard, Number, Operand, Symbol
from fusekit.torch_types import TO_TORCH

Scalar = bool | int | float | complex
# What the symbols leaf:<n> and object:<n> of a graph mean: by symbol, or the flat arguments of the call alone.
Leaves = Sequence[object] | Mapping[str, object]
# (tensors of the op's operands, the graph's numbers, leaves) -> what torch is handed
Reader = Callable[[Sequence[torch.Tensor], Sequence[Scalar], Leaves], object]


@cache
def overload(target: str) -> torch._ops.OpOverload:
    """The torch op of ``aten.add_.Tensor``: namespace, name, overload."""
    namespace, name, variant = target.split(".")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), name), variant)
    except AttributeError as error:
        raise FusekitError(f"torch {torch.__version__} has no op {target}") from error


@cache
def _named(name: str) -> object:
    """The constant behind a symbol: ``torch.contiguous_format``, ``device:cpu``."""
    kind, _, rest = name.partition(":")
    if kind == "device":
        return torch.device(rest)
    if name.startswith("torch.") and hasattr(torch, name[6:]):
        return getattr(torch, name[6:])
    raise FusekitError(f"unknown constant {name!r} in the arguments of an op")


def names_of(numbers: Sequence[Scalar]) -> dict[str, Scalar]:
    """The values of n0, n1, ... as index forms name them."""
    return {f"n{k}": value for k, value in enumerate(numbers)}


def value_of(form: Form, numbers: Sequence[Scalar]) -> int:
    """The value of a form whose only variables are the graph's numbers."""
    return form.const if not form.terms else form.evaluate(names_of(numbers))  # type: ignore[arg-type]


def reader(arg: Arg) -> Reader:
    """A function that gives the Python value of ``arg``; everything that does not change is decoded here, once."""
    match arg:
        case Operand(position=k):
            return lambda tensors, numbers, leaves: tensors[k]
        case Number(index=k):
            return lambda tensors, numbers, leaves: numbers[k]
        case Form() if arg.terms:
            return lambda tensors, numbers, leaves: value_of(arg, numbers)
        case Form():
            return _constant(arg.const)
        case Symbol(name=name) if name.startswith(("leaf:", "object:")):
            return lambda tensors, numbers, leaves: _object(name, leaves)
        case Symbol(name=name) if name.startswith("output:"):
            return lambda tensors, numbers, leaves: _object(name, leaves) if isinstance(leaves, Mapping) else arg
        case Symbol(name=name):
            return _constant(_named(name))
        case DType():
            return _constant(TO_TORCH[arg])
        case Guard():
            raise FusekitError("a guard is no argument of a torch op")
        case tuple():
            return _sequence(arg)
    return _constant(arg)


def _object(name: str, leaves: Leaves) -> object:
    return leaves[name] if isinstance(leaves, Mapping) else leaves[int(name.partition(":")[2])]


def symbols(objects: Mapping[str, object], leaves: Sequence[object]) -> dict[str, object]:
    """What the symbols of a recording mean at a call: ``objects`` has the number of a flat argument, or the object."""
    pairs = objects.items()
    return {name: leaves[value] if name.startswith("leaf:") else value for name, value in pairs}  # type: ignore[index]


def _constant(value: object) -> Reader:
    return lambda tensors, numbers, leaves: value


def is_constant(arg: Arg) -> bool:
    """Is ``arg`` the same on every call?"""
    if isinstance(arg, Operand | Number):
        return False
    if isinstance(arg, Symbol):
        return not arg.name.startswith(("leaf:", "object:"))
    if isinstance(arg, Form):
        return arg.is_constant
    return all(map(is_constant, arg)) if isinstance(arg, tuple) else True


def _sequence(args: tuple[Arg, ...]) -> Reader:
    readers = tuple(map(reader, args))
    if is_constant(args):
        return _constant([read((), (), ()) for read in readers])
    return lambda tensors, numbers, leaves: [read(tensors, numbers, leaves) for read in readers]


def arguments(op: core.Call) -> Callable[..., tuple[list[object], dict[str, object]]]:
    """A function that gives what the op's overload is called with, of tensors, numbers and leaves."""
    positional = tuple(map(reader, op.args))
    named = tuple((name, reader(arg)) for name, arg in op.kwargs)

    def read_all(
        tensors: Sequence[torch.Tensor], numbers: Sequence[Scalar], leaves: Leaves
    ) -> tuple[list[object], dict[str, object]]:
        kwargs = {name: read(tensors, numbers, leaves) for name, read in named}
        return [read(tensors, numbers, leaves) for read in positional], kwargs

    return read_all


def caller(op: core.Call) -> Reader:
    """A function that calls the op's exact overload on tensors, numbers and leaves."""
    function, read_all = overload(op.target), arguments(op)

    def call(tensors: Sequence[torch.Tensor], numbers: Sequence[Scalar], leaves: Leaves) -> object:
        args, kwargs = read_all(tensors, numbers, leaves)
        return function(*args, **kwargs)

    return call
