"""An error in the middle of a call steps the versions of what was written by then, as in eager."""

import pytest
import torch

import fusekit as fk


def around_a_library_call(a, b, m):
    a.add_(1)
    b.add_(torch.linalg.cholesky(m).sum())


def around_a_kernel(a, b, m):
    a.add_(1)
    b.copy_(torch.stack([b, b, b])[:, m[0].long()].sum(0))


@pytest.mark.parametrize("fn", [around_a_library_call, around_a_kernel], ids=lambda fn: fn.__name__)
def test_versions_of_what_was_not_written_stay(fn):
    fused = fk.jit(fn)
    for k in range(3):
        fine = torch.eye(3)
        fused(torch.ones(3), torch.ones(3), fine)
        seen = []
        for call in (fn, fused):
            a, b = torch.ones(3), torch.ones(3)
            with pytest.raises((RuntimeError, IndexError)):
                call(a, b, -torch.eye(3) * (9 + k))
            seen.append((a._version, b._version, a.tolist(), b.tolist()))
        assert seen[0] == seen[1] and seen[0][:2] == (1, 0)
