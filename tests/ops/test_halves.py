"""Rounding to 16 bits, packing and unpacking: every one of the 65,536 patterns, and float32 values near every tie."""

import math

import numba
import numpy as np
import pytest
import torch

from fusekit.dtypes import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8
from fusekit.ops import cast, functions, linked, literal
from fusekit.torch_types import TO_TORCH

COMPILED = linked(numba.njit)


def over(name: str, values: np.ndarray, dtype: type) -> np.ndarray:
    """A helper over an array, compiled; its plain form is checked on a sample."""
    function, plain = COMPILED[name], functions()[name]

    def loop(given, found):
        for i in range(given.size):
            found[i] = function(given[i])

    found = np.empty(values.size, dtype)
    numba.njit(loop)(values, found)
    sample = slice(None, None, max(1, values.size // 2000))
    with np.errstate(all="ignore"):
        again = np.array([plain(value) for value in values[sample]], dtype)
    assert np.array_equal(again.view(f"u{again.itemsize}"), found[sample].view(f"u{again.itemsize}"))
    return found


def near_ties() -> torch.Tensor:
    """Every half, its neighbours and the midpoints to the next one, with the float32 values around them."""
    halves = torch.arange(1 << 16, dtype=torch.int32)
    bits = torch.cat([halves << 16, (halves << 16) + 0x7FFF, (halves << 16) + 0x8000, (halves << 16) + 0x8001])
    f16 = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.float16).float().view(torch.int32)
    steps = [f16 + step for step in (0, 1, -1, 0xFFF, 0x1000, 0x1001)]
    tiny = (torch.arange(4097, dtype=torch.float32) * 2.0**-25).view(torch.int32)
    return torch.cat([bits, *steps, tiny, tiny + 1, tiny - 1]).view(torch.float32)


@pytest.mark.parametrize(("name", "dtype"), [("bf16", BF16), ("f16", F16)])
def test_rounding(name, dtype):
    values = near_ties()
    expected = values.to(TO_TORCH[dtype]).float()
    found = torch.from_numpy(over(f"to_{name}", values.numpy(), np.float32))
    assert torch.equal(found.isnan(), expected.isnan())
    same = found.view(torch.int32) == expected.view(torch.int32)
    assert bool((same | expected.isnan()).all())


@pytest.mark.parametrize(("name", "dtype"), [("bf16", BF16), ("f16", F16)])
def test_packing(name, dtype):
    """unpack is the exact float32; pack takes it back, to the bits of a NaN; what was rounded has the canonical NaN."""
    bits = np.arange(1 << 16, dtype=np.uint16)
    expected = torch.from_numpy(bits.view(np.int16)).view(TO_TORCH[dtype]).float()
    values = over(f"unpack_{name}", bits, np.float32)
    assert np.array_equal(values, expected.numpy(), equal_nan=True)
    assert np.array_equal(np.signbit(values), np.signbit(expected.numpy()))
    assert np.array_equal(over(f"pack_{name}", values, np.uint16), bits)
    rounded = over(f"pack_{name}", over(f"to_{name}", values, np.float32), np.uint16)
    quiet = 0x7FC0 if dtype is BF16 else 0x7E00 | (bits & 0x8000)
    assert np.array_equal(rounded, np.where(np.isnan(values), quiet, bits))


def test_fused_multiply_add_of_float32():
    """Exact in every bit: against rational arithmetic rounded once."""
    from fractions import Fraction

    rng = np.random.default_rng(0)
    plain = functions()["fma_f32"]
    for _ in range(2000):
        a, b = (np.float32(v) for v in rng.standard_normal(2))
        c = np.float32(-float(a) * float(b) * (1 + rng.integers(-3, 4) * 2.0 ** -rng.integers(20, 60)))
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        assert plain(a, b, c) == nearest_float32(exact)


def nearest_float32(exact) -> np.float32:
    """The float32 nearest to a Fraction, ties to even."""
    guess = np.float32(float(exact))
    near = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    from fractions import Fraction

    return min(near, key=lambda v: (abs(Fraction(float(v)) - exact), int(v.view(np.uint32)) & 1))


def test_literals():
    assert literal(0.1, F32) == "np.float32(0.1)"
    assert literal(0.1, BF16) == "np.float32(0.100097656)"
    assert literal(300, U8) == "np.uint8(44)" and literal(200, I8) == "np.int8(-56)"
    assert literal(-0.0, F64) == "np.float64(-0.0)" and literal(math.inf, F16) == "np.float32(np.inf)"
    assert literal(1e39, F32) == "np.float32(np.inf)" and literal(2.9, I32) == "np.int32(2)"
    assert literal(0.5, BOOL) == "True" and literal(2**53 + 1, I64) == f"np.int64({2**53 + 1})"
    with pytest.raises(ValueError, match="not an integer"):
        literal(math.nan, I64)


def test_cast_texts():
    assert cast("x", F32, F32) == "x" and cast("x", BF16, F32) == "x"
    assert cast("x", F32, BF16) == "to_bf16(x)" and cast("x", F64, F16) == "to_f16(np.float32(x))"
    assert cast("x", F32, I16) == "np.int16(float_to_i32(x))" and cast("x", F32, U8) == "np.uint8(float_to_i64(x))"
    assert cast("x", I64, BOOL) == "(x != np.int64(0))" and cast("x", BOOL, I64) == "np.int64(x)"
