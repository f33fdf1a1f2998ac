"""exp, log, tanh, erf, sin and cos of float32 in straight-line arithmetic, which LLVM vectorises (it cannot call libm).

Each is tested against float64 over the whole line: within 1.5 ulps, exact at zero, the infinities and NaN; subnormal
results are rounded, not flushed. Polynomials: Cephes (exp, log, tanh, sin, cos) and
N. Juffa (erf).
"""

import numpy as np


def power_of_two(exponent):
    """2**exponent, an int32 between -126 and 127."""
    return np.int32((exponent + np.int32(127)) << np.int32(23)).view(np.float32)


def exp_f32(x):
    """2**n * e**rest, with n the nearest integer of x / log 2; the scale is applied in two steps, for subnormals.

    What is zero anyway (-inf of a mask) is not computed by way of a subnormal: processors take their time over these.
    """
    gone = x < np.float32(-104.0)
    inside = np.float32(89.0) if x > np.float32(89.0) else x
    inside = np.float32(0) if gone else inside
    inside = np.float32(0) if x != x else inside
    whole = np.rint(inside * np.float32(1.44269504))
    rest = (inside - whole * np.float32(0.693359375)) - whole * np.float32(-2.12194440e-4)
    p = np.float32(1.9875691500e-4)
    p = p * rest + np.float32(1.3981999507e-3)
    p = p * rest + np.float32(8.3334519073e-3)
    p = p * rest + np.float32(4.1665795894e-2)
    p = p * rest + np.float32(1.6666665459e-1)
    p = p * rest + np.float32(5.0000001201e-1)
    value = (p * (rest * rest) + rest) + np.float32(1)
    n = np.int32(whole)
    half = np.int32(n >> np.int32(1))
    value = (value * power_of_two(half)) * power_of_two(np.int32(n - half))
    value = np.float32(0) if gone else value
    return x if x != x else value


def log_f32(x):
    """n * log 2 + log m, with m between sqrt(1/2) and sqrt(2)."""
    tiny = x < np.float32(1.17549435e-38)
    scaled = x * np.float32(8388608.0) if tiny else x
    bits = np.float32(scaled).view(np.int32)
    n = np.int32((bits - np.int32(0x3F3504F3)) >> np.int32(23))
    m = np.int32(bits - np.int32(n << np.int32(23))).view(np.float32) - np.float32(1)
    e = np.float32(n) - (np.float32(23) if tiny else np.float32(0))
    p = np.float32(7.0376836292e-2)
    p = p * m + np.float32(-1.1514610310e-1)
    p = p * m + np.float32(1.1676998740e-1)
    p = p * m + np.float32(-1.2420140846e-1)
    p = p * m + np.float32(1.4249322787e-1)
    p = p * m + np.float32(-1.6668057665e-1)
    p = p * m + np.float32(2.0000714765e-1)
    p = p * m + np.float32(-2.4999993993e-1)
    p = p * m + np.float32(3.3333331174e-1)
    square = m * m
    low = (m * square) * p + e * np.float32(-2.12194440e-4)
    value = (m + (low - np.float32(0.5) * square)) + e * np.float32(0.693359375)
    value = x if x == np.float32(np.inf) else value
    value = np.float32(-np.inf) if x == np.float32(0) else value
    return value if x >= np.float32(0) else np.float32(np.nan)


def tanh_f32(x):
    """An odd polynomial near zero, else from exp(2 |x|)."""
    size = np.float32(abs(x))
    square = x * x
    p = np.float32(-5.70498872745e-3)
    p = p * square + np.float32(2.06390887954e-2)
    p = p * square + np.float32(-5.37397155531e-2)
    p = p * square + np.float32(1.33314422036e-1)
    p = p * square + np.float32(-3.33332819422e-1)
    near = (p * square) * x + x
    far = np.float32(1) - np.float32(2) / (exp_f32(size + size) + np.float32(1))
    return np.copysign(near if size < np.float32(0.625) else far, x)


def erf_f32(x):
    """An odd polynomial below 475/512, else 1 - e**q(|x|); beyond 4 the result is 1."""
    square = x * x
    p = np.float32(-5.96761703e-4)
    p = p * square + np.float32(4.99119423e-3)
    p = p * square + np.float32(-2.67681349e-2)
    p = p * square + np.float32(1.12819925e-1)
    p = p * square + np.float32(-3.76125336e-1)
    p = p * square + np.float32(1.28379166e-1)
    near = p * x + x
    size = np.float32(abs(x))
    t = np.float32(4) if size > np.float32(4) else size
    q = np.float32(-1.72853470e-5)
    q = q * t + np.float32(3.83197126e-4)
    q = q * t + np.float32(-3.88396438e-3)
    q = q * t + np.float32(2.42546219e-2)
    q = q * t + np.float32(-1.06777877e-1)
    q = q * t + np.float32(-6.34846687e-1)
    q = q * t + np.float32(-1.28717512e-1)
    far = np.float32(1) - exp_f32(q * t - t)
    return np.copysign(near if size < np.float32(0.927734375) else far, x)


def chosen(k, a, b, c, d, e):
    """The one of number k, from 0 to 4."""
    low = a if k == np.int32(0) else b if k == np.int32(1) else c
    return low if k < np.int32(3) else d if k == np.int32(3) else e


def quarters_f32(x):
    """x / (pi / 2) modulo 4, as a fixed-point number with 62 bits behind the point; right for |x| from 1/128 on.

    Of 2 / pi the 96 bits that matter are taken, behind those that only make whole turns: none is lost for any float32.
    """
    bits = np.int32(np.float32(x).view(np.int32) & np.int32(0x7FFFFFFF))
    m = np.uint64((bits & np.int32(0x7FFFFF)) | np.int32(0x800000))
    place = np.int32((bits >> np.int32(23)) - np.int32(120))
    place = np.int32(0) if place < np.int32(0) else place
    word, shift, half = np.int32(place >> np.int32(5)), np.uint64(place & np.int32(31)), np.uint64(32)
    high = chosen(
        word,
        np.uint64(0x00000000A2F9836E),
        np.uint64(0xA2F9836E4E441529),
        np.uint64(0x4E441529FC2757D1),
        np.uint64(0xFC2757D1F534DDC0),
        np.uint64(0xF534DDC0DB629599),
    )
    middle = chosen(
        word,
        np.uint64(0xA2F9836E4E441529),
        np.uint64(0x4E441529FC2757D1),
        np.uint64(0xFC2757D1F534DDC0),
        np.uint64(0xF534DDC0DB629599),
        np.uint64(0xDB6295993C439041),
    )
    low = chosen(
        word,
        np.uint64(0x4E441529FC2757D1),
        np.uint64(0xFC2757D1F534DDC0),
        np.uint64(0xF534DDC0DB629599),
        np.uint64(0xDB6295993C439041),
        np.uint64(0x3C439041FE5163AB),
    )
    high, middle, low = (high << shift) >> half, (middle << shift) >> half, (low << shift) >> half
    return np.uint64(((m * high) << half) + m * middle + ((m * low) >> half))


def sin_near(r):
    """sin r for |r| <= pi / 4."""
    square = r * r
    p = np.float32(-1.9515295891e-4)
    p = p * square + np.float32(8.3321608736e-3)
    p = p * square + np.float32(-1.6666654611e-1)
    return (p * square) * r + r


def cos_near(r):
    """cos r for |r| <= pi / 4."""
    square = r * r
    p = np.float32(2.443315711809948e-5)
    p = p * square + np.float32(-1.388731625493765e-3)
    p = p * square + np.float32(4.166664568298827e-2)
    return (p * (square * square) - np.float32(0.5) * square) + np.float32(1)


def wave_f32(x, ahead):
    """sin of |x| + ahead * pi / 2."""
    size = np.float32(abs(x))
    small = size < np.float32(0.5)
    turns = quarters_f32(size)
    rest = np.float32(np.float64(np.int64(turns << np.uint64(2))) * np.float64(8.515303950216386e-20))
    r = size if small else rest
    whole = np.int32(0) if small else np.int32((turns + np.uint64(0x2000000000000000)) >> np.uint64(62))
    k = np.int32(whole + ahead)
    value = cos_near(r) if (k & np.int32(1)) == np.int32(1) else sin_near(r)
    value = -value if (k & np.int32(2)) == np.int32(2) else value
    return value if size < np.float32(np.inf) else np.float32(np.nan)


def sin_f32(x):
    """By quarters of a turn, exactly reduced."""
    value = wave_f32(x, np.int32(0))
    return -value if np.copysign(np.float32(1), x) < np.float32(0) else value


def cos_f32(x):
    """By quarters of a turn, exactly reduced."""
    return wave_f32(x, np.int32(1))
