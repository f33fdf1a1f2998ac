"""``fk.overlap`` says how two tensors share memory, and with which relation."""

import pytest
import torch

import fusekit as fk
from fusekit.memory import Overlap

X = torch.zeros(4, 6)


@pytest.mark.parametrize(
    ("first", "second", "name", "relation"),
    [
        (X, X, "SAME", "same elements"),
        (X, X.t(), "SAME", "the second is the transpose of the first"),
        (X, X[0], "CONTAINS", "the second is row 0 of the first"),
        (X[1, 1], X, "WITHIN", "the first is element [1,1] of the second"),
        (X, X[:, 1::2], "CONTAINS", "the second is columns 1::2 of the first"),
        (X[:3], X[1:], "PARTIAL", "the second against the first: shift by (1, 0) (12 of 18 elements)"),
        (X[:, ::2], X[:, 1::2], "DISJOINT", "no common byte"),
        (X, torch.zeros(4, 6), "DISJOINT", "no common byte"),
        (X, X.view(torch.int32), "SAME", "the second is reinterpreted as i32 of the first"),
    ],
)
def test_relations(first, second, name, relation):
    found = fk.overlap(first, second)
    assert (found.name, found.relation) == (name, relation)
    assert found == Overlap[name] and found == name and found == name.lower() and found != "UNKNOWN"
    assert repr(found) == f"{name}: {relation}"
    assert bool(found) == (name != "DISJOINT")


def test_shared_bytes():
    assert fk.overlap(X, X[0]).shared == 24
    assert fk.overlap(X[:3], X[1:]).shared == 48
    assert fk.overlap(X[:, ::2], X[:, 1::2]).shared == 0
