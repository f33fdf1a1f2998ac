"""Logic on truth values, bits and shifts: exact."""

from fusekit.dtypes import BOOL, U8, DType
from fusekit.ops.entry import Call, Entry, Rule, refuse_unless
from fusekit.ops.text import rounded

_SYMBOLS = {"and": "&", "or": "|", "xor": "^"}


def _logical(symbol: str) -> Rule:
    """Each side is compared with the zero of its own dtype."""

    def rule(call: Call) -> tuple[DType, str]:
        call.promoted("self")
        call.promoted("other")
        return BOOL, f"{call.value('self', BOOL)} {symbol} {call.value('other', BOOL)}"

    return rule


def _logical_not(call: Call) -> tuple[DType, str]:
    call.promoted("self")
    return BOOL, f"not {call.value('self', BOOL)}"


def _bitwise(symbol: str) -> Rule:
    def rule(call: Call) -> tuple[DType, str]:
        dtype = refuse_unless(call.promoted("self", "other"), "bool int")
        return dtype, rounded(f"{call.value('self', dtype)} {symbol} {call.value('other', dtype)}", dtype)

    return rule


def _bitwise_not(call: Call) -> tuple[DType, str]:
    dtype = refuse_unless(call.promoted("self"), "bool int")
    x = call.value("self", dtype)
    return dtype, f"not {x}" if dtype is BOOL else rounded(f"~{x}", dtype)


def _shift_left(call: Call) -> tuple[DType, str]:
    dtype = refuse_unless(call.promoted("self", "other"), "int")
    a, b = call.value("self", dtype), call.value("other", dtype)
    return dtype, rounded(f"shift_left({a}, {b}, {8 * dtype.width})", dtype)


def _shift_right(call: Call) -> tuple[DType, str]:
    """Past the width a signed value becomes its sign; a byte becomes 0."""
    dtype = refuse_unless(call.promoted("self", "other"), "int")
    a, b = call.value("self", dtype), call.value("other", dtype)
    most = 8 * dtype.width - (0 if dtype is U8 else 1)
    return dtype, rounded(f"shift_right({a}, {b}, {most})", dtype)


_PAIR = "self, other"

ENTRIES = {
    "logical_not.default": Entry("self", _logical_not),
    "bitwise_not.default": Entry("self", _bitwise_not),
    **{f"logical_{name}.default": Entry(_PAIR, _logical(symbol)) for name, symbol in _SYMBOLS.items()},
    **{
        f"{prefix}{name}{suffix}.{overload}": Entry(_PAIR, _bitwise(symbol))
        for name, symbol in _SYMBOLS.items()
        for prefix, suffix, overloads in (
            ("bitwise_", "", ("Tensor", "Scalar", "Scalar_Tensor")),
            ("__", "__", ("Tensor", "Scalar")),
        )
        for overload in overloads
    },
    **{
        f"bitwise_{side}_shift.{overload}": Entry(_PAIR, rule)
        for side, rule in (("left", _shift_left), ("right", _shift_right))
        for overload in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")
    },
    **{
        f"{name}.{overload}": Entry(_PAIR, rule)
        for name, rule in (("__lshift__", _shift_left), ("__rshift__", _shift_right))
        for overload in ("Tensor", "Scalar")
    },
}
