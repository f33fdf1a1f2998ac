"""``fk.testing.check`` and the ``backend`` fixture."""

import pytest
import torch

import fusekit as fk
from fusekit.testing import check

pytest_plugins = ["fusekit.testing.plugin"]


def test_check_passes(backend: str) -> None:
    def step(x, y):
        y.mul_(2)
        return x + y, y[1:]

    x = torch.arange(6.0)
    assert check(step, x[:4], x[2:], backend=backend).ok
    assert torch.equal(x, torch.arange(6.0))


def test_check_fails_with_a_table_and_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fk, "jit", lambda fn: lambda x: x * 3)
    with pytest.raises(AssertionError, match="To repeat it") as failure:
        check(lambda x: x * 2, torch.ones(3))
    assert "! out" in str(failure.value)
