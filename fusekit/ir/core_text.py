"""An op of ours from its text: the right names, each with an argument of the right kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast, get_args

from fusekit.index import Form
from fusekit.ir import core
from fusekit.ir.arguments import Arg, Guard, Number, Operand, is_tuple

_BY_NAME = {kind.target: kind for kind in core.OURS}


def read_op(
    target: str,
    args: tuple[Arg, ...] = (),
    kwargs: tuple[tuple[str, Arg], ...] = (),
    writes: tuple[int, ...] = (),
    same: tuple[tuple[int, int], ...] = (),
) -> core.What:
    """The op whose text says this. Raises ValueError for one of ours that is none, or has other arguments."""
    if not target.startswith("fk."):
        return core.Call(target, args, kwargs, writes, same)
    given = dict(kwargs)
    kind = _BY_NAME.get(target)
    if kind is None:
        raise ValueError(f"there is no op {target}")
    if kind is core.Return:
        given["outputs"] = args
    elif args != tuple(map(Operand, range(kind.takes))):
        raise ValueError(f"{target} takes {kind.takes} tensors")
    if unknown := given.keys() - set(kind.__match_args__):
        raise ValueError(f"{target} has no {', '.join(sorted(unknown))}")
    try:
        make = cast("Callable[..., core.Ours]", kind)
        return make(**{name: _FIELDS[name](value) for name, value in given.items()})
    except TypeError as error:  # of the payload's constructor: which one is missing
        raise ValueError(f"{target}: {error}") from error


def _forms(value: Arg) -> core.Index:
    if is_tuple(value) and all(isinstance(item, Form | int) for item in value):
        return tuple(Form.of(item) for item in value if isinstance(item, Form | int))
    raise ValueError(f"{value!r} are no index forms")


def _guards(value: Arg) -> tuple[Guard, ...]:
    found = tuple(item for item in value if isinstance(item, Guard)) if is_tuple(value) else None
    if found is None or found != value:
        raise ValueError(f"{value!r} are no guards")
    return found


def _ints(value: Arg) -> tuple[int, ...]:
    return tuple(map(_int, value)) if is_tuple(value) else (_int(value),)


def _pairs(value: Arg) -> tuple[tuple[int, Operand], ...]:
    found: list[tuple[int, Operand]] = []
    for item in value if is_tuple(value) else (value,):
        match item:
            case (int(number), Operand() as operand):
                found.append((number, operand))
            case _:
                raise ValueError(f"{item!r} is no pair of an input and a tensor")
    return tuple(found)


def _int(value: Arg) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(f"{value!r} is no whole number")


def _scalar(value: Arg) -> core.Scalar:
    if isinstance(value, bool | int | float | complex | Number):
        return value
    raise ValueError(f"{value!r} is no number")


def _word(value: Arg) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"{value!r} is no text")


def _folding(value: Arg) -> str:
    if value in get_args(core.Folding):
        return _word(value)
    raise ValueError(f"there is no reduction {value!r}")


def _truth(value: Arg) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError(f"{value!r} is neither True nor False")


def _any(value: Arg) -> Arg:
    return value


_FIELDS: dict[str, Callable[[Arg], object]] = {
    "index": _forms, "where": _guards, "dims": _ints, "dim": _int, "size": _int, "flush": _int, "ignore": _int,
    "value": _scalar, "start": _scalar, "step": _scalar, "kind": _folding, "wraps": _truth,
    "outputs": _any, "relayout": _pairs, "because": _word, "of": _word, "error": _word,
}  # fmt: skip
