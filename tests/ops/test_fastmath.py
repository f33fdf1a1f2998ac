"""Our own exp, log, tanh, erf, sin and cos of float32 against float64, over a sample of all 2**32 bit patterns."""

import math

import numba
import numpy as np
import pytest
import torch

from fusekit.ops import functions, linked

COMPILED = linked(numba.njit(error_model="numpy"))


def true_erf(values: np.ndarray) -> np.ndarray:
    return torch.erf(torch.from_numpy(values)).numpy()


BOUNDS = {"exp": (np.exp, 1.0), "log": (np.log, 1.0), "tanh": (np.tanh, 1.5), "erf": (true_erf, 1.5)}
BOUNDS |= {"sin": (np.sin, 1.5), "cos": (np.cos, 1.5)}


def compiled_over(name: str, values: np.ndarray) -> np.ndarray:
    function = COMPILED[f"{name}_f32"]

    def loop(given, found):
        for i in range(given.size):
            found[i] = function(given[i])

    found = np.empty_like(values)
    numba.njit(error_model="numpy")(loop)(values, found)
    return found


@pytest.mark.parametrize("name", BOUNDS)
def test_bound(name):
    exact, bound = BOUNDS[name]
    values = np.arange(0, 1 << 32, 4099, dtype=np.uint64).astype(np.uint32).view(np.float32)
    found = compiled_over(name, values)
    with np.errstate(all="ignore"):
        want = exact(values.astype(np.float64))
        nearest = want.astype(np.float32)
        finite = np.isfinite(nearest)
        assert np.array_equal(found[~finite], nearest[~finite], equal_nan=True)
        apart = np.abs(found[finite] - want[finite]) / np.spacing(np.abs(nearest[finite])).astype(np.float64)
    assert apart.max() <= bound


@pytest.mark.parametrize("name", BOUNDS)
def test_plain_python_gives_the_same_bits(name):
    special = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 88.72, 88.73, -87.5, -103.9, -104.1, 1e-45, 3e38]
    values = np.array([*special, *np.random.default_rng(0).standard_normal(300)], dtype=np.float32)
    with np.errstate(all="ignore"):
        plain = np.array([functions()[f"{name}_f32"](value) for value in values])
    assert plain.dtype == np.float32
    assert np.array_equal(plain, compiled_over(name, values), equal_nan=True)
    zeros = values == 0
    assert name in ("exp", "log", "cos") or np.array_equal(np.signbit(plain[zeros]), np.signbit(values[zeros]))
