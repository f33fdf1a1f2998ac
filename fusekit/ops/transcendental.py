"""Float functions: integers and bools compute in the default float dtype, halves in float32.

``ulps`` is the distance from eager (SLEEF or libm, 1 ulp) to libm or to Numba's own functions, measured on grids and on
random values; ``sqrt``, ``reciprocal`` and ``rsqrt`` are exact. Two numbers on one line mean float32 and float64 alike.
"""

from fusekit.dtypes import DType
from fusekit.ops.entry import Call, Entry, Rule, floating, refuse_unless
from fusekit.ops.text import HALVES, rounded

_UNARY = {
    "exp": "np.exp",
    "exp2": "np.exp2",
    "expm1": "np.expm1",
    "log": "np.log",
    "log2": "np.log2",
    "log10": "np.log10",
    "log1p": "np.log1p",
    "sin": "np.sin",
    "cos": "np.cos",
    "tan": "np.tan",
    "asin": "np.arcsin",
    "acos": "np.arccos",
    "atan": "np.arctan",
    "sinh": "np.sinh",
    "cosh": "np.cosh",
    "tanh": "np.tanh",
    "asinh": "np.arcsinh",
    "acosh": "np.arccosh",
    "atanh": "np.arctanh",
    "erf": "erf",
    "erfc": "erfc",
    "sigmoid": "sigmoid",
}
_EXACT = {"sqrt": "np.sqrt", "reciprocal": "reciprocal"}
_ULPS = {
    "erfc": 8,
    "sigmoid": 3,
    "tan": 4,
    "sinh": 4,
    "cosh": 4,
    "asinh": 4,
    "acosh": 4,
    "atanh": 4,
    "tanh": 4,
    "log10": 3,
}


def _unary(function: str) -> Rule:
    def rule(call: Call) -> tuple[DType, str]:
        dtype = floating(call, "self")
        return dtype, rounded(f"{function}({call.value('self', dtype)})", dtype)

    return rule


def _binary(function: str, first: str = "self", second: str = "other") -> Rule:
    def rule(call: Call) -> tuple[DType, str]:
        dtype = floating(call, first, second)
        return dtype, rounded(f"{function}({call.value(first, dtype)}, {call.value(second, dtype)})", dtype)

    return rule


def _rsqrt(call: Call) -> tuple[DType, str]:
    """Halves round the square root first."""
    dtype = floating(call, "self")
    x = call.value("self", dtype)
    return dtype, rounded(f"reciprocal({rounded(f'np.sqrt({x})', dtype)})" if dtype in HALVES else f"rsqrt({x})", dtype)


def _xlogy(call: Call) -> tuple[DType, str]:
    """Halves round the logarithm first."""
    dtype = floating(call, "self", "other")
    x, y = call.value("self", dtype), call.value("other", dtype)
    return dtype, rounded(f"xlogy({x}, {y}, {rounded(f'np.log({y})', dtype)})", dtype)


def _rounding(function: str) -> Rule:
    def rule(call: Call) -> tuple[DType, str]:
        dtype = refuse_unless(call.promoted("self"), "int float")
        x = call.value("self", dtype)
        return dtype, f"{function}({x})" if dtype.is_floating else x

    return rule


def _frac(call: Call) -> tuple[DType, str]:
    dtype = refuse_unless(call.promoted("self"), "float")
    x = call.value("self", dtype)
    return dtype, rounded(f"{x} - np.trunc({x})", dtype)


ENTRIES = {
    **{f"{name}.default": Entry("self", _unary(function), _ULPS.get(name, 2)) for name, function in _UNARY.items()},
    **{f"{name}.default": Entry("self", _unary(function)) for name, function in _EXACT.items()},
    **{
        f"{name}.default": Entry("self", _rounding(function))
        for name, function in {"floor": "np.floor", "ceil": "np.ceil", "trunc": "np.trunc", "round": "np.rint"}.items()
    },
    "rsqrt.default": Entry("self", _rsqrt),
    "frac.default": Entry("self", _frac),
    "atan2.default": Entry("self, other", _binary("np.arctan2"), ulps=2),
    "hypot.default": Entry("self, other", _binary("np.hypot"), ulps=2),
    "logaddexp.default": Entry("self, other", _binary("logaddexp"), ulps=4),
    "copysign.Tensor": Entry("self, other", _binary("np.copysign")),
    "copysign.Scalar": Entry("self, other", _binary("np.copysign")),
    "xlogy.Tensor": Entry("self, other", _xlogy, ulps=4),
    "xlogy.Scalar_Self": Entry("self, other", _xlogy, ulps=4),
    "xlogy.Scalar_Other": Entry("self, other", _xlogy, ulps=4),
}
