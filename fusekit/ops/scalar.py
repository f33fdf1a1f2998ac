"""The scalar functions that bodies of the table call: plain Python over numpy scalars, which Numba compiles as it is.

A function of floats works in the type of its first argument (float32 or float64) and returns that type; integer
functions return a wider integer that the body casts back. Every constant is typed, since ``float32 * 0.5`` is float64
in Numba. Nothing here depends on how eager's loop is tiled: where ATen's vector and tail loops differ (the sign of
``maximum(0, -0)``) the vector loop is followed.
"""

import math

import numpy as np

from fusekit.ops.fastmath import cos_f32, erf_f32, exp_f32, log_f32, sin_f32, tanh_f32

# ---- halves: registers are float32 that hold a rounded value; memory holds 16 bits -----------------------------------


def to_bf16(x):
    """``x`` (float32) rounded to the nearest bfloat16, ties to even."""
    bits = np.float32(x).view(np.uint32)
    odd = np.uint32((bits >> np.uint32(16)) & np.uint32(1))
    rounded = np.uint32((np.uint64(bits) + np.uint64(0x7FFF) + np.uint64(odd)) & np.uint64(0xFFFF0000))
    return np.uint32(0x7FC00000).view(np.float32) if x != x else rounded.view(np.float32)


def to_f16(x):
    """``x`` (float32) rounded to the nearest float16, ties to even; 65520 and above become infinite."""
    bits = np.float32(x).view(np.uint32)
    size = np.uint64(bits & np.uint32(0x7FFFFFFF))
    rounded = np.uint32((size + np.uint64(0xFFF) + ((size >> np.uint64(13)) & np.uint64(1))) & np.uint64(0xFFFFE000))
    normal = np.float32(np.inf) if size >= np.uint64(0x477FF000) else rounded.view(np.float32)
    # below 2**-14 the spacing is 2**-24, which is the spacing of float32 in [0.5, 1)
    small = (np.float32(abs(x)) + np.float32(0.5)) - np.float32(0.5)
    nan = np.uint32(0x7FC00000).view(np.float32)
    return np.copysign(nan if x != x else small if size < np.uint64(0x38800000) else normal, x)


def pack_bf16(x):
    """The 16 bits of ``x``, a float32 that holds a bfloat16: of a NaN that was only moved, its own."""
    return np.uint16(np.float32(x).view(np.uint32) >> np.uint32(16))


def unpack_bf16(bits):
    """The float32 of 16 bits of a bfloat16."""
    return np.uint32(np.uint32(bits) << np.uint32(16)).view(np.float32)


def pack_f16(x):
    """The 16 bits of ``x``, a float32 that holds a float16: of a NaN that was only moved, its own."""
    bits = np.float32(x).view(np.uint32)
    sign = np.uint32((bits >> np.uint32(16)) & np.uint32(0x8000))
    size = np.uint32(bits & np.uint32(0x7FFFFFFF))
    tiny = np.float32(abs(x)) if size < np.uint32(0x38800000) else np.float32(0)
    small = np.uint32(np.int32(tiny * np.float32(16777216)))
    normal = np.uint32((np.int64(size) - np.int64(0x38000000)) >> np.int64(13))
    finite = small if size < np.uint32(0x38800000) else normal
    special = np.uint32(np.uint32(0x7C00) | np.uint32((size >> np.uint32(13)) & np.uint32(0x3FF)))
    return np.uint16(sign | (special if size >= np.uint32(0x7F800000) else finite))


def unpack_f16(bits):
    """The float32 of 16 bits of a float16."""
    size = np.uint32(np.uint32(bits) & np.uint32(0x7FFF))
    rebased = np.uint32(np.uint32(size << np.uint32(13)) + np.uint32(0x38000000))
    special = np.uint32(np.uint32(size << np.uint32(13)) | np.uint32(0x7F800000))
    normal = special.view(np.float32) if size >= np.uint32(0x7C00) else rebased.view(np.float32)
    small = np.float32(size) * np.float32(2.0**-24)
    value = small if size < np.uint32(0x400) else normal
    return -value if np.uint32(bits) >= np.uint32(0x8000) else value


# ---- conversions: what x86 answers for NaN and out of range ----------------------------------------------------------


def float_to_i32(x):
    """Truncation; NaN and everything out of range become the lowest integer. Narrower types wrap this result."""
    inside = (x >= type(x)(-2147483648.0)) & (x < type(x)(2147483648.0))
    return np.int32(x) if inside else np.int32(-2147483648)


def float_to_i64(x):
    """Truncation; NaN and everything out of range become the lowest integer. uint8 wraps this result."""
    inside = (x >= type(x)(-9223372036854775808.0)) & (x < type(x)(9223372036854775808.0))
    return np.int64(x) if inside else np.int64(-9223372036854775808)


# ---- arithmetic ------------------------------------------------------------------------------------------------------


def fma(a, b, c):
    """``a * b + c`` rounded once, where eager's compiled code does; a backend with the instruction replaces it."""
    if type(a) is np.float32:
        return fma_f32(a, b, c)
    return type(a)(fma_f64(a, b, c))


def fma_f32(a, b, c):
    """Exact: the product of two float32 is exact in float64, and the sum is rounded to odd before the last rounding."""
    product, addend = np.float64(a) * np.float64(b), np.float64(c)
    total = product + addend
    part = total - product
    error = (product - (total - part)) + (addend - part)
    bits = np.float64(total).view(np.int64)
    away = (error > np.float64(0)) == (total > np.float64(0))
    odd = np.int64(bits + (np.int64(1) if away else np.int64(-1))).view(np.float64)
    inexact = (error != np.float64(0)) & (error == error) & ((bits & np.int64(1)) == np.int64(0))
    return np.float32(odd if inexact else total)


def split_f64(x):
    """The upper 26 bits of ``x``; the rest is the difference (Veltkamp)."""
    big = np.float64(134217729.0) * x
    return big - (big - x)


def fma_f64(a, b, c):
    """By Dekker's product and Knuth's sum: its last bit is rounded twice at worst."""
    shift = np.float64(2.0**-60) if abs(a) > np.float64(2.0**960) else np.float64(1)
    shift = np.float64(2.0**60) if abs(b) > np.float64(2.0**960) else shift
    a, b = a * shift, b / shift
    a_high, b_high = split_f64(a), split_f64(b)
    a_low, b_low = a - a_high, b - b_high
    product = a * b
    product_error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    total = product + c
    part = total - product
    error = (product - (total - part)) + (c - part)
    rest = error + product_error
    exact = total if rest == np.float64(0) else total + rest
    if exact == exact or not (np.isfinite(a) and np.isfinite(b)):
        return exact if exact == exact else total
    # the product overflows, and the sum may take it back
    return c if np.isinf(c) else np.float64(2) * (np.float64(0.5) * a * b + np.float64(0.5) * c)


def reciprocal(x):
    """1 / x."""
    return type(x)(1) / x


def rsqrt(x):
    """1 / sqrt(x), two roundings."""
    return type(x)(1) / np.sqrt(x)


def trunc_div(a, b):
    """Integer division towards zero; ``b`` is not 0."""
    quotient = a // b
    return quotient + 1 if (quotient < 0) and (quotient * b != a) else quotient


def floor_div(a, b):
    """Float floor division as Python's (ATen's ``div_floor_floating``): from the remainder, not from the quotient."""
    zero, one = type(a)(0), type(a)(1)
    plain = a / b
    rest = np.fmod(a, b)
    quotient = (a - rest) / b
    quotient = quotient - one if (rest != zero) and ((b < zero) != (rest < zero)) else quotient
    floored = np.floor(quotient)
    floored = floored + one if quotient - floored > type(a)(0.5) else floored
    floored = np.copysign(zero, plain) if quotient == zero else floored
    return plain if b == zero else floored


def remainder(a, b):
    """The float remainder with the sign of ``b``."""
    rest = np.fmod(a, b)
    return rest + b if (rest != type(a)(0)) and ((b < type(a)(0)) != (rest < type(a)(0))) else rest


def power_int(base, exponent):
    """Integer power by squaring, wrapping; a negative exponent gives 0 unless the base is 1 or -1."""
    result, factor, left = np.int64(1), np.int64(base), np.int64(exponent)
    if left < 0:
        odd = (left & np.int64(1)) != np.int64(0)
        unit = np.int64(-1) if odd else np.int64(1)
        return np.int64(1) if factor == np.int64(1) else (unit if factor == np.int64(-1) else np.int64(0))
    while left > 0:
        if left & np.int64(1):
            result = np.int64(result * factor)
        factor = np.int64(factor * factor)
        left = np.int64(left >> np.int64(1))
    return result


def shift_left(a, b, bits):
    """``a << b``; 0 where the amount is negative or not below ``bits``, the width of the type."""
    inside = (b >= 0) and (b < bits)
    return np.int64(a) << np.int64(b if inside else 0) if inside else np.int64(0)


def shift_right(a, b, most):
    """``a >> b``; amounts that are negative or above ``most`` count as ``most``."""
    return np.int64(a) >> np.int64(b if (b >= 0) and (b < most) else most)


def sign(x):
    """-1, 0 or 1; NaN gives 0."""
    zero = type(x)(0)
    return type(x)(1) if x > zero else (type(x)(-1) if x < zero else zero)


def is_negative(x):
    """The sign bit of a float."""
    return np.copysign(type(x)(1), x) < type(x)(0)


# ---- order -----------------------------------------------------------------------------------------------------------


def maximum(a, b):
    """The larger; NaN if either is; of equals the second."""
    return a if (a > b) or (a != a) else b


def minimum(a, b):
    """The smaller; NaN if either is; of equals the second."""
    return a if (a < b) or (a != a) else b


def fmax(a, b):
    """The larger; NaN only if both are; of equals the first."""
    return b if (a < b) or (a != a) else a


def fmin(a, b):
    """The smaller; NaN only if both are; of equals the first."""
    return b if (a > b) or (a != a) else a


def clamp_min(x, low):
    """``x`` raised to ``low``; NaN of either wins, and of equals ``x``."""
    return low if (x < low) or (low != low and x == x) else x


def clamp_max(x, high):
    """``x`` lowered to ``high``; NaN of either wins, and of equals ``x``."""
    return high if (x > high) or (high != high and x == x) else x


def nan_to_num(x, nan, above, below):
    """``x`` with NaN and the infinities replaced."""
    finite = above if x == type(x)(np.inf) else (below if x == type(x)(-np.inf) else x)
    return nan if x != x else finite


# ---- transcendental: float32 by our own polynomials, float64 by libm -------------------------------------------------


def power(x, y):
    """pow of C; numpy alone takes a square root for an exponent of 0.5, which differs at -0 and -inf."""
    edge = (y == type(x)(0.5)) and ((x == type(x)(0)) or (x == type(x)(-np.inf)))
    return np.power(abs(x) if edge else x, y)


def exp(x):
    if type(x) is np.float32:
        return type(x)(exp_f32(np.float32(x)))
    return np.exp(x)


def log(x):
    if type(x) is np.float32:
        return type(x)(log_f32(np.float32(x)))
    return np.log(x)


def tanh(x):
    if type(x) is np.float32:
        return type(x)(tanh_f32(np.float32(x)))
    return np.tanh(x)


def sin(x):
    if type(x) is np.float32:
        return type(x)(sin_f32(np.float32(x)))
    return np.sin(x)


def cos(x):
    if type(x) is np.float32:
        return type(x)(cos_f32(np.float32(x)))
    return np.cos(x)


def erf(x):
    if type(x) is np.float32:
        return type(x)(erf_f32(np.float32(x)))
    return type(x)(math.erf(x))


def erfc(x):
    return type(x)(math.erfc(x))


def sigmoid(x):
    return type(x)(1) / (type(x)(1) + exp(-x))


def xlogy(x, y):
    """``x * log(y)``; 0 where x is 0, unless y is NaN."""
    zeroed = type(x)(0) if x == type(x)(0) else x * log(y)
    return y if y != y else zeroed


def logaddexp(a, b):
    """log(exp(a) + exp(b)) without overflow."""
    high = maximum(a, b)
    same = np.isinf(a) & (a == b)
    return a if same else high + np.log1p(exp(-abs(a - b)))


def lerp(start, end, weight):
    """From the nearer end, each with one rounding (ATen's ``lerp``, contracted as its build is)."""
    step = end - start
    near = abs(weight) < type(start)(0.5)
    return fma(weight, step, start) if near else fma(-step, type(start)(1) - weight, end)
