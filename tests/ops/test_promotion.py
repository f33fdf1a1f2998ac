"""Promotion without torch equals torch.result_type, for every pair of dtypes and every priority class."""

import itertools
import warnings

import pytest
import torch

from fusekit import dtypes
from fusekit.ops import Kind, result_type
from fusekit.ops.promotion import number_kind
from fusekit.torch_types import FROM_TORCH, TO_TORCH

NUMBERS = (True, 2, 2.5, 1j)


def forms(dtype):
    """The dtype as a tensor with dimensions and as one of rank zero."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # complex half is experimental
        theirs = TO_TORCH[dtype]
        return [(torch.empty(2, dtype=theirs), Kind(dtype)), (torch.empty((), dtype=theirs), Kind(dtype, True))]


TENSORS = [form for dtype in dtypes.ALL for form in forms(dtype)]
OPERANDS = [*TENSORS, *((number, number_kind(number)) for number in NUMBERS)]


def either(function, *args):
    """The result, or "raises": torch and we refuse the same pairs."""
    try:
        return function(*args)
    except (RuntimeError, TypeError):
        return "raises"


@pytest.mark.parametrize("first", TENSORS, ids=lambda form: f"{form[1].dtype}{'-0d' if form[1].rank_zero else ''}")
def test_pairs(first):
    for second in OPERANDS:
        want = either(torch.result_type, first[0], second[0])
        got = either(result_type, (first[1], second[1]))
        assert got == FROM_TORCH.get(want, want), (first[1], second[1])


def test_triples():
    """where, clamp and addcmul promote three: the order of the operands does not matter."""
    kinds = [Kind(d, zero) for d in (dtypes.U8, dtypes.I64, dtypes.BF16, dtypes.F32) for zero in (False, True)]
    kinds += [number_kind(2), number_kind(0.5)]
    for triple in itertools.combinations(kinds, 3):
        assert len({result_type(order) for order in itertools.permutations(triple)}) == 1, triple


def test_default_dtype():
    assert result_type((Kind(dtypes.I32), number_kind(0.5)), dtypes.F64) is dtypes.F64
    assert result_type((Kind(dtypes.BF16), number_kind(0.5)), dtypes.F64) is dtypes.BF16
    assert result_type((number_kind(1j),), dtypes.F64) is dtypes.C128
