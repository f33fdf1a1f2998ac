"""One callable, called with other numbers: a plan is shared only where eager would run the same program.

Each case is a call that used to run, or might run, the plan of another one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import fusekit as fk
from fusekit.errors import UnsupportedError
from fusekit.testing.runners import Runner
from fusekit.testing.trial import try_calls
from fusekit.trace import entries, guards, handed, numbers, record, shadow, signature, swap
from fusekit.trace.shadow import Script

NAN = math.nan
Body = Callable[..., object]


@pytest.fixture(autouse=True)
def _inference():
    with torch.no_grad():
        yield


def rows(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.arange(math.prod(shape)).to(dtype).reshape(shape)


def right(fn: Body, make: Callable[[], torch.Tensor], calls: Sequence[Any]) -> None:
    """Eager's outputs, bytes, aliasing and exceptions in every call, through one callable."""
    makes = [lambda n=n: [make(), *(n if isinstance(n, tuple) else (n,))] for n in calls]
    trial = try_calls(fn, makes, True, Runner("plain"))
    assert trial.verdict == "right", f"call {trial.call} with {calls[trial.call]}: {trial.words}"


def write_window(a, n):
    a[n : n + 3].mul_(2)
    return a[n : n + 3].sum(0)


def write_item(a, n, m):
    a[n : n + 2, m] = 5.0
    a[n] += a[m]


@pytest.mark.parametrize(
    ("fn", "calls"),
    [
        (lambda a, n: a[n : n + 3] * 2, (6, 0, 3, 7, 1, 5, 8, 9, -1, -3, -9)),  # cut by the end, or counted from it
        (lambda a, n: a[n : n + 3] * 2, (0, 3, 6, 1)),
        (lambda a, n: a[n : n + 6 : 2] * 2, (0, 2, 3, 4, 1)),
        (lambda a, n: a[n : n + 7 : 3] * 2, (2, 1, 0, 3)),
        (lambda a, n: a[n : n + 5][n : n + 2] * 2, (0, 1, 3, 4, 2, 5)),
        (lambda a, n: a[n:n] * 2, (8, 3, 9, 0)),
        (lambda a, n: a[n : n + 2, n : n + 3] * 2, (6, 0, 5, 3)),
        (lambda a, n: a[n:] * 2, (0, 3, -2, 9)),
        (lambda a, n, m: a[n:m] * 2, ((1, 3), (2, 4), (3, 1), (6, 8), (7, 9))),
        (lambda a, n: torch.ops.aten.slice(a, 0, n, 8) * 2, (2, 1, 3)),  # its end stays
        (write_window, (7, 6, 0, 3, 1, -1, 9)),
        (write_item, ((1, 1), (3, 1), (6, 2), (7, 3), (2, 2), (0, 5))),
    ],
)
def test_windows_move_where_nothing_is_cut(fn: Body, calls: Sequence[Any]) -> None:
    right(fn, lambda: rows(8, 8), calls)


@pytest.mark.parametrize(
    ("fn", "calls"),
    [
        (lambda a, n, m: (a.select(1, n) * 2, a[m, m] * 1.0), ((3, 3), (5, 3), (3, 5), (2, 2))),
        (lambda a, n, m: (a[n] * 2, a[m] * 3, a[n, m]), ((1, 1), (2, 2), (2, 3), (3, 2), (1, 2))),
        (lambda a, n: (a[n] * 2, a.unbind(0)[3] * 1, a[3] + 1), (3, 5, 2)),
        (lambda a, n: (a[n] * 2, a.narrow(0, 3, 1) * 1), (3, 5)),
        (lambda a, n: a[:3, n] * 2, (0, 2, 1)),  # the start that is filled in is no number of the caller's
        (lambda a, n: a[..., :3, n] * 2, (0, 2, 1)),
        (lambda a, n: a[0:8, n : n + 8] * 2, (0, 2, 1)),
        (lambda a, n: a[n : n + 8, 0:8] * 2, (0, 2, 1)),
        (lambda a, n: a[1, n], (5, 6, 1, 0)),
        (lambda a, n: a.select(n, 1) * 2, (1, 0, -1)),
        (lambda a, n: a.clamp(n, 3), (3, 5, 1)),
        (lambda a, n, m: torch.add(a, a, alpha=n) * m, ((2, 2), (3, 2), (2, 3))),
        (lambda a, n: torch.add(a, n, a), (1, 2, 1.5)),  # the older order of arguments
    ],
)
def test_equal_numbers_are_not_one(fn: Body, calls: Sequence[Any]) -> None:
    right(fn, lambda: rows(8, 8), calls)


@pytest.mark.parametrize(
    ("fn", "calls"),
    [
        (lambda a, n: a * a[n : n + 2].storage_offset(), (2, 1, 3)),
        (lambda a, n: a * (a * 1.0)[n : n + 2].storage_offset(), (2, 1, 3)),
        (lambda a, n: (a * 2)[n : n + 4].view(torch.int64) + 1, (2, 4, 1, 3)),
        (lambda a, n: (a * 2)[n : n + 4].as_strided((4,), (2,)) + 1, (0, 1, 2, 4)),
        (lambda a, n: (a * 2)[n : n + 4][:2].as_strided((2,), (4,)) + 1, (0, 1, 3, 4)),
        (lambda a, n: torch.view_as_complex((a * 2)[n : n + 4].view(2, 2)) + 1, (0, 2, 1)),
        (lambda a, n: (a * 2).as_strided((3,), (1,), n) * 2, (1, 2, -1, 5, 6)),
        (lambda a, n: a[n : n + 3].add_(a[0:3]), (3, 4, 1, 5, 0)),  # eager refuses some overlaps
        (lambda a, n, m: a[n : n + 3].add_(a[m : m + 3]), ((3, 0), (4, 0), (1, 0), (5, 5), (2, 4))),
        (lambda a, n: a[n : n + 3].copy_(a[0:3]), (3, 4, 1, 5, 0)),
        (lambda a, n: (a[n : n + 3].mul_(2), a[2:5] + 1), (0, 3, 1, 2, 5, 6)),
    ],
)
def test_where_a_view_begins(fn: Body, calls: Sequence[Any]) -> None:
    right(fn, lambda: rows(8), calls)


@pytest.mark.parametrize(
    ("fn", "calls"),
    [
        (lambda a, n: torch.copysign(a, n), (NAN, math.copysign(NAN, -1), 0.0, -0.0, 1.0, -1.0)),
        (lambda a, n: torch.copysign(a, float(n)), (np.float64(0.0), np.float64(-0.0), np.float64(0.0))),
        (lambda a, n: a * n, (1, True, 1.0, 0, False, 0.0, -0.0, 1e300, math.inf, -7)),
        (lambda a, n: a / n, (1, 2, 0, 3, -0.0, 0.0, NAN)),
        (lambda a, n: a.fill_(n), (1, (1 << 60) + 1, 16777217, -(1 << 63), 10**25, 1e39, -1e39, math.inf, 3)),
        (lambda a, n: a + 1 if n > 2 else a - n, (1, 3, 0, 4, 2.5, True)),
        (lambda a, n: (a * 2, n), (1, 2, 1.0, True)),
        (lambda a, n: a + torch.arange(8) * n, (1, 2, 3.0, 4)),
        (lambda a, n: torch.full((8,), n) + a, (1, 2, 3.0, 4.0, True)),
        (lambda a, n: a.select(0, n) * 2, (3, -1, 7, 8, -8, -9, 2.0, True)),
        (lambda a, n: (a.mul_(2), a.select(0, n).add_(1)), (1, 2, 7, 8, 3)),
        (lambda a, n: torch.norm(a, p=n), (2.0, 1.0, 0.0, math.inf, -math.inf)),
        (lambda a, n: a**n, (2, 3, 1, 0, 2.0, 0.5, -1)),
    ],
)
def test_numbers_are_told_apart(fn: Body, calls: Sequence[Any]) -> None:
    right(fn, lambda: rows(8) + 1, calls)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float16, torch.bool])
def test_what_a_dtype_cannot_hold_is_refused_as_in_eager(dtype: torch.dtype) -> None:
    for fn in (lambda a, n: a.fill_(n), lambda a, n: a.__setitem__(0, n), lambda a, n: a + n):
        right(fn, lambda: rows(8, dtype=dtype), (3, 2, 300, -1, 5, 70000, 1 << 40, 1.5, 1e5, True))


@pytest.mark.parametrize("fn", [lambda a, n: a // n, lambda a, n: a % n, lambda a, n: a << n, lambda a, n: a * n])
def test_integers(fn: Body) -> None:
    right(fn, lambda: rows(8, dtype=torch.int64), (3, 2, 0, 5, -2, 31, 40, (1 << 63) - 1, -(1 << 63)))


def test_integers_that_no_kernel_takes() -> None:
    compiled = fk.jit(lambda a, n: a * n)
    for n in (2, 1 << 63, 3, 1 << 63, (1 << 64) - 1):
        assert torch.equal(compiled(rows(3), n), rows(3) * n)
        assert torch.equal(compiled(rows(3, dtype=torch.int64), n), rows(3, dtype=torch.int64) * n)


# ---- is each rule needed? (tests/fuzz/test_mutants.py has more of them)


def dimensions_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    takes = handed._takes
    patch.setattr(handed, "_takes", lambda call, item, dim: any(takes(call, item, other) for other in range(4)))


def zeros_and_nans_have_no_sign(patch: pytest.MonkeyPatch) -> None:
    for module in (entries, guards, numbers, shadow):
        patch.setattr(module, "exactly", lambda value: (type(value), value if value == value else "nan"))


def an_end_moves_with_its_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(handed, "_TAKE_ANY", handed._TAKE_ANY | {"slice"})


def offsets_that_are_read_are_not_in_the_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(swap, "tells_place", lambda *args: False)


def integers_hold_any_number(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(handed, "_is_float", lambda call: True)


def a_scalar_fits_everywhere(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shadow, "largest", lambda made: math.inf)


@pytest.mark.parametrize(
    ("break_it", "fn", "shape", "calls"),
    [
        (dimensions_are_not_counted, lambda a, n: a[n : n + 3, 0:3] * 2, (3, 8), (0, 1)),
        (zeros_and_nans_have_no_sign, lambda a, n: torch.copysign(a, n), (8,), (0.0, -0.0)),
        (zeros_and_nans_have_no_sign, lambda a, n: torch.copysign(a, n), (8,), (NAN, math.copysign(NAN, -1))),
        (an_end_moves_with_its_start, lambda a, n: torch.ops.aten.slice(a, 0, n, 8) * 2, (8,), (2, 1)),
        (offsets_that_are_read_are_not_in_the_key, lambda a, n: a * a[n].storage_offset(), (8,), (2, 1)),
        (integers_hold_any_number, lambda a, n: a.byte().fill_(n), (8,), (1, 300)),
        (a_scalar_fits_everywhere, lambda a, n: a.fill_(n), (8,), (1.0, 1e39)),
    ],
)
def test_a_broken_rule_is_seen(break_it: Callable[..., None], fn: Body, shape: Any, calls: Any, monkeypatch) -> None:
    right(fn, lambda: rows(*shape) + 1, calls)
    break_it(monkeypatch)
    with pytest.raises(AssertionError):
        right(fn, lambda: rows(*shape) + 1, calls)


# ---- what still is shared


@pytest.mark.parametrize(
    ("fn", "calls"),
    [
        (lambda a, n: a[n : n + 3] * 2, (0, 3, 5, 1)),
        (lambda a, n: a[n : n + 7 : 3] * 2, (1, 0)),  # the end may lie past the tensor's: no element does
        (lambda a, n: a[None, ..., n] * 2, (0, 3, -1)),
        (lambda a, n, m: a[n : n + 2, m] * 2, ((0, 3), (5, 1), (4, 4))),
        (lambda a, n: a.__setitem__((slice(None), n), 5.0), (0, 3, -1)),
        (lambda a, n: a.addcmul(a, a, value=n), (2.0, 3.0)),
        (lambda a, n: a.long()[n] + 1, (2, 3)),
    ],
)
def test_free_numbers_make_no_recording(fn: Body, calls: Sequence[Any]) -> None:
    compiled = Runner("plain").callable_of(fn)
    with Runner("plain").running(0):
        for n in calls:
            compiled(rows(8, 8), *(n if isinstance(n, tuple) else (n,)))
    info = compiled.cache_info()
    assert info.recordings == 1 and info.plans <= 2


def test_the_vector_is_a_recordings() -> None:
    """What a script finds is what a recording would have; where two numbers become one, it finds nothing."""

    def fn(a, n, m):
        return a[n] * 2, a[m : m + 2] + 1, a[n, m], a.mul(n + 0.5)

    script = Script(record(fn, (rows(8, 8), 1, 3)))
    for n, m in ((2, 5), (7, 6), (-1, 3), (3, 3), (1, 3), (6, 7), (8, 0)):
        found = script.numbers(fn, (rows(8, 8), n, m), {})
        if (n, m) in ((3, 3), (6, 7), (8, 0)):
            assert found is None
        else:
            assert found == signature(record(fn, (rows(8, 8), n, m)))[1]


def test_an_offset_that_as_strided_counts_from_is_no_number() -> None:
    def fn(a, n):
        return (a * 2)[n : n + 2][:1].as_strided((2,), (1,))

    one, two = (signature(record(fn, (rows(8), n))) for n in (0, 3))
    assert one[0] != two[0] and one[1] == two[1] == (2,)


# ---- what the function asks its tensors


@pytest.mark.parametrize("read", [torch.Tensor.storage_offset, lambda a: a.view(-1).storage_offset()])
def test_where_an_argument_begins_is_in_the_key_if_it_is_read(read: Callable[[torch.Tensor], int]) -> None:
    compiled, memory = fk.jit(lambda a: a * read(a)), rows(8)
    for part in (memory[:4], memory[4:], memory[2:6]):
        assert torch.equal(compiled(part), part * read(part))


def test_layouts_that_are_read_keep_calls_together() -> None:
    compiled = fk.jit(lambda a: a * a.size(0) + len(a) + a.dim() + a.stride(0) + a.numel() + a.is_contiguous())
    memory = rows(8)
    for part in (memory[:4], memory[4:], memory[2:6]):
        compiled(part)
    assert compiled.cache_info().recordings == 1


def test_a_comparison_of_addresses_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="is_set_to"):
        fk.jit(lambda a: a * a.is_set_to(a.view(-1)))(rows(4))
