"""Calls of every overload of the table over grids of special values, for the tests of this folder."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import torch

from fusekit.dtypes import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, DType
from fusekit.ir import Operand
from fusekit.ops import SUPPORTED, Kind, Scalar, cast, functions, plan
from fusekit.torch_types import FROM_TORCH, TO_TORCH

FLOATS, INTEGERS = (F32, F64, BF16, F16), (U8, I8, I16, I32, I64)
NUMPY = {BOOL: np.bool_, U8: np.uint8, I8: np.int8, I16: np.int16, I32: np.int32, I64: np.int64}
NUMPY |= {F16: np.float32, BF16: np.float32, F32: np.float32, F64: np.float64}

SPECIAL = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -7.0, 0.3, 1e-3)
SPECIAL += (88.9, -104.0)
_TINY = {F32: (1e-45, -1e-40, 3.4e38, -1e30), F64: (5e-324, -1e-310, 1.7e308, -1e300)}
_TINY |= {BF16: (9.2e-41, -1e-39, 3.3e38, -1e30), F16: (6e-8, -3e-5, 65504.0, -6000.0)}


def grid(dtype: DType) -> torch.Tensor:
    """Values at the edges of a dtype."""
    if dtype is BOOL:
        return torch.tensor([True, False])
    if dtype in FLOATS:
        return torch.tensor(SPECIAL + _TINY[dtype], dtype=TO_TORCH[dtype])
    limits = torch.iinfo(TO_TORCH[dtype])
    small = [v for v in (0, 1, 2, 3, 7, -1, -2, -7, 100) if v >= limits.min]
    return torch.tensor([*small, limits.max, limits.min, limits.max - 1, limits.min + 1], dtype=TO_TORCH[dtype])


def combined(columns: list[torch.Tensor]) -> list[torch.Tensor]:
    """All pairs (a sample of all triples), as columns whose length is a multiple of 64: eager's vector loops only."""
    sizes = [len(column) for column in columns]
    every = np.array(list(itertools.product(*map(range, sizes))), dtype=np.int64)
    if len(every) > 1200:
        every = every[np.random.default_rng(len(every)).permutation(len(every))[:1200]]
    every = np.resize(every, (-(-len(every) // 64) * 64, len(sizes)))
    return [column[torch.from_numpy(every[:, k].copy())] for k, column in enumerate(columns)]


def registers(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's values as an array of registers."""
    return (tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor).numpy()


@dataclass(frozen=True)
class Case:
    """One call: ``args`` and ``kwargs`` with Operand(k) for ``tensors[k]``."""

    target: str
    args: tuple
    kwargs: dict
    tensors: tuple

    @property
    def overload(self):
        _, name, overload = self.target.split(".")
        return getattr(getattr(torch.ops.aten, name), overload)

    def eager(self) -> torch.Tensor:
        def real(value):
            if isinstance(value, Operand):
                return self.tensors[value.position]
            return TO_TORCH[value] if isinstance(value, DType) else value

        return self.overload(*map(real, self.args), **{name: real(value) for name, value in self.kwargs.items()})

    def plan(self):
        kinds = [Kind(FROM_TORCH[t.dtype], t.dim() == 0, single=t.numel() == 1) for t in self.tensors]
        return plan(self.target, self.args, self.kwargs, kinds)

    def __str__(self) -> str:
        return f"{self.target}{self.args}{self.kwargs} of {[str(t.dtype) for t in self.tensors]}"


def element(case: Case, body: Scalar, name: str = "element") -> str:
    """A function of the operands' registers: conversions, then the body."""
    names = [f"v{k}" for k in range(len(body.operands))]
    texts = [
        cast(name_, FROM_TORCH[t.dtype], want)
        for name_, t, want in zip(names, case.tensors, body.operands, strict=True)
    ]
    return f"def {name}({', '.join(names)}):\n    return {body.body.format(*texts)}\n"


def in_python(case: Case, body: Scalar) -> np.ndarray:
    """The body over all elements by plain Python."""
    scope = {**functions(), "np": np, "math": math}
    exec(element(case, body), scope)
    columns = [registers(t) for t in torch.broadcast_tensors(*case.tensors)]
    with np.errstate(all="ignore"):
        found = [scope["element"](*values) for values in zip(*columns, strict=True)]
    expected = NUMPY[body.result]
    wrong = {type(value) for value in found} - {expected, bool if expected is np.bool_ else expected}
    assert not wrong, f"{case}: {wrong} instead of {expected}: {body.body}"
    return np.array(found, dtype=expected)


_NUMBERS = {
    "other": (2, -3, 0.3),
    "exponent": (2, 3, 0.5, -1, 1.7, -2, -0.5, 1, 0),
    "self": (2, 0.3),
    "alpha": (2, -1),
    "value": (0.3, 2),
    "weight": (0.3, 0.7),
    "min": (-1, 0.5),
    "max": (2, -0.5),
    "min_val": (-1,),
    "max_val": (2,),
    "threshold": (0.5,),
    "negative_slope": (0.1,),
    "lambd": (0.5,),
    "beta": (2,),
    "scale": (1.5,),
    "input_scale": (1,),
}
_CHOICES = {
    "rounding_mode": ("trunc", "floor", None),
    "approximate": ("none", "tanh"),
    "dtype": SUPPORTED,
    "self_is_result": (False,),
    "is_result": (False, True),
    "nan": (None, 7.0),
}
_ALWAYS_OPTIONAL = ("posinf", "neginf", "memory_format", "layout", "device", "pin_memory", "non_blocking")


def _choices(argument, dtype: DType) -> tuple:
    """The values that an argument is tried with; a dtype stands for a tensor of it."""
    kind, name = str(argument.type), argument.name
    if name in ("condition", "mask"):
        return (BOOL,)
    if "Tensor" in kind:
        return (dtype,)
    if name in _ALWAYS_OPTIONAL:
        return ()
    if name in _CHOICES:
        return tuple(("dtype", c) for c in _CHOICES[name]) if name == "dtype" else _CHOICES[name]
    values = _NUMBERS.get(name, (2,))
    return tuple(v for v in values if isinstance(v, int) or dtype.is_floating or name in ("other", "exponent"))


def cases(target: str, dtype: DType) -> list[Case]:
    """Calls of an overload on the grid of a dtype, over the product of a few values of each argument."""
    _, name, overload = target.split(".")
    arguments = getattr(getattr(torch.ops.aten, name), overload)._schema.arguments
    options = [(a, _choices(a, dtype)) for a in arguments]
    options = [(a, c) for a, c in options if c]
    made = []
    for chosen in itertools.product(*(c for _, c in options)):
        tensors, args, kwargs = [], [], {}
        for (argument, _), value in zip(options, chosen, strict=True):
            if isinstance(value, DType):
                tensors.append(value)
                value = Operand(len(tensors) - 1)
            elif isinstance(value, tuple):
                value = value[1]
            if argument.kwarg_only or (name == "nan_to_num" and argument.name != "self"):
                kwargs[argument.name] = value
            else:
                args.append(value)
        columns = combined([grid(t) for t in tensors])
        if target == "aten.masked_fill.Tensor":
            columns[-1] = grid(dtype)[1]
        made.append(Case(target, tuple(args), kwargs, tuple(columns)))
    return made


def distance(found: np.ndarray, expected: torch.Tensor, body: Scalar) -> np.ndarray:
    """Units in the last place of the result; 0 for equal bits, for two NaN and within the body's absolute bound."""
    want = registers(expected)
    if want.dtype.kind != "f":
        return np.where(found == want, 0.0, math.inf)
    with np.errstate(all="ignore"):
        same = ((found == want) & (np.signbit(found) == np.signbit(want))) | (np.isnan(found) & np.isnan(want))
        spacing = np.spacing(np.abs(want)).astype(np.float64) * {BF16: 2.0**16, F16: 2.0**13}.get(body.result, 1.0)
        apart = np.abs(found.astype(np.float64) - want.astype(np.float64))
        same |= apart < body.absolute
        apart = np.where((found == want) & ~same, math.inf, apart / np.maximum(spacing, 5e-324))  # a zero's sign
    return np.where(same, 0.0, np.where(np.isfinite(apart), apart, math.inf))


def accidents(case: Case) -> np.ndarray:
    """Where eager's vector loop and its own tail loop differ, so that there is no one right answer."""
    name = case.target.split(".")[1]
    columns = [registers(t).astype(np.float64) for t in case.tensors]
    with np.errstate(all="ignore"):
        if name in ("sinh", "cosh"):  # SLEEF overflows early
            return np.abs(columns[0]) > 88
        if name == "gelu_backward":
            return (np.abs(columns[0]) > 1e30) | np.isinf(columns[1])
        if name in ("maximum", "minimum", "max", "min", "fmax", "fmin", "clamp", "clamp_min", "clamp_max"):
            zeros = [np.signbit(column) & (column == 0) for column in columns]
            return np.any(zeros, axis=0) & np.any([(c == 0) & ~z for c, z in zip(columns, zeros, strict=True)], axis=0)
        if name in ("fmod", "remainder", "floor_divide", "div") and case.tensors[0].dtype.is_floating_point:
            operands = [columns[v.position] if isinstance(v, Operand) else np.float64(v) for v in case.args[:2]]
            return np.broadcast_to(np.abs(operands[0] / operands[1]) > 1e6, columns[0].shape)  # SLEEF's fmod: NaN
    return np.zeros(len(columns[0]), dtype=bool)
