"""Comparisons and tests of one value: bool results, exact. Both sides are first converted to the promoted dtype."""

from fusekit.dtypes import BOOL, DType
from fusekit.ops.entry import Call, Entry, Rule
from fusekit.ops.text import REGISTER, literal

_OPERATORS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _compare(operator: str) -> Rule:
    def rule(call: Call) -> tuple[DType, str]:
        dtype = call.promoted("self", "other")
        return BOOL, f"{call.value('self', dtype)} {operator} {call.value('other', dtype)}"

    return rule


def _test(text: str, of_integers: str) -> Rule:
    """``text`` uses {x} for the operand, {big} for its infinity, {zero} for its zero."""

    def rule(call: Call) -> tuple[DType, str]:
        dtype = call.promoted("self")
        x, zero = call.value("self", dtype), literal(0, dtype)
        if dtype.is_floating:
            return BOOL, text.format(x=x, zero=zero, big=f"{REGISTER[dtype]}(np.inf)")
        return BOOL, "False" if dtype is BOOL and "{x}" in of_integers else of_integers.format(x=x, zero=zero)

    return rule


_TESTS = {
    "isnan": ("{x} != {x}", "False"),
    "isinf": ("abs({x}) == {big}", "False"),
    "isfinite": ("abs({x}) < {big}", "True"),
    "isposinf": ("{x} == {big}", "False"),
    "isneginf": ("{x} == -{big}", "False"),
    "signbit": ("is_negative({x})", "{x} < {zero}"),
}

ENTRIES = {
    **{
        f"{name}.{overload}": Entry("self, other", _compare(operator))
        for name, operator in _OPERATORS.items()
        for overload in ("Tensor", "Scalar")
    },
    **{f"{name}.default": Entry("self", _test(*texts)) for name, texts in _TESTS.items()},
}
