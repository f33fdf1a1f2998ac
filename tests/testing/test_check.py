"""``fk.testing.check`` and the ``fusekit_backend`` fixture."""

import pytest
import torch

import fusekit as fk
from fusekit.testing import check

pytest_plugins = ["fusekit.pytest_plugin"]


def test_check_passes(fusekit_backend: str) -> None:
    def step(x, y):
        y.mul_(2)
        return x + y, y[1:]

    x = torch.arange(6.0)
    assert check(step, x[:4], x[2:], backend=fusekit_backend).ok
    assert torch.equal(x, torch.arange(6.0))


def test_check_fails_with_a_table_and_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fk, "jit", lambda fn: lambda x: x * 3)
    with pytest.raises(AssertionError, match="To repeat it") as failure:
        check(lambda x: x * 2, torch.ones(3))
    assert "! out" in str(failure.value)


def test_captured_tensors_are_put_back(fusekit_backend: str) -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(4))
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.weight + self.count.add_(1)

    module = Counter()
    with torch.no_grad():
        report = check(module, torch.ones(2, 4), backend=fusekit_backend)
    assert {"bytes of self.count", "bytes of self.weight"} <= {row.what for row in report.rows}
    assert module.count.tolist() == [0] and module.count._version == 0
    compile(report.repro(), "script", "exec")
