"""Float functions: integers and bools compute in the default float dtype, halves in float32.

``ulps`` is the distance from eager (SLEEF or libm, 1 ulp) to ours (those of ``fastmath``, for float32), to numpy's in
plain Python and to libm's in Numba, measured on grids and on random values. Eager's ``sqrt`` is MKL's, which misses the
nearest value by one ulp now and then; ours is IEEE's.
"""

from fusekit.dtypes import DType
from fusekit.ops.entry import Call, Entry, Rule, floating, refuse_unless
from fusekit.ops.text import rounded

_UNARY = {
    "sqrt": "np.sqrt",
    "exp": "exp",
    "exp2": "np.exp2",
    "expm1": "np.expm1",
    "log": "log",
    "log2": "np.log2",
    "log10": "np.log10",
    "log1p": "np.log1p",
    "sin": "sin",
    "cos": "cos",
    "tan": "np.tan",
    "asin": "np.arcsin",
    "acos": "np.arccos",
    "atan": "np.arctan",
    "sinh": "np.sinh",
    "cosh": "np.cosh",
    "tanh": "tanh",
    "asinh": "np.arcsinh",
    "acosh": "np.arccosh",
    "atanh": "np.arctanh",
    "erf": "erf",
    "erfc": "erfc",
    "sigmoid": "sigmoid",
}
_EXACT = {"reciprocal": "reciprocal", "rsqrt": "rsqrt"}
_ULPS = {
    "sqrt": 1,
    "erfc": 8,
    "sigmoid": 3,
    "sin": 3,
    "cos": 3,
    "tan": 4,
    "sinh": 4,
    "cosh": 4,
    "asinh": 4,
    "acosh": 4,
    "atanh": 4,
    "tanh": 4,
    "log10": 3,
}
_ABSOLUTE = {"erf": 5e-7}


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
    **{
        f"{name}.default": Entry("self", _unary(function), _ULPS.get(name, 2), _ABSOLUTE.get(name, 0.0))
        for name, function in _UNARY.items()
    },
    **{f"{name}.default": Entry("self", _unary(function)) for name, function in _EXACT.items()},
    **{
        f"{name}.default": Entry("self", _rounding(function))
        for name, function in {"floor": "np.floor", "ceil": "np.ceil", "trunc": "np.trunc", "round": "np.rint"}.items()
    },
    "frac.default": Entry("self", _frac),
    "atan2.default": Entry("self, other", _binary("np.arctan2"), ulps=2),
    "hypot.default": Entry("self, other", _binary("np.hypot"), ulps=2),
    "logaddexp.default": Entry("self, other", _binary("logaddexp"), ulps=4, absolute=1e-6),
    "copysign.Tensor": Entry("self, other", _binary("np.copysign")),
    "copysign.Scalar": Entry("self, other", _binary("np.copysign")),
    "xlogy.Tensor": Entry("self, other", _binary("xlogy"), ulps=4),
    "xlogy.Scalar_Self": Entry("self, other", _binary("xlogy"), ulps=4),
    "xlogy.Scalar_Other": Entry("self, other", _binary("xlogy"), ulps=4),
}
