"""A pytest plugin: the fixture ``backend`` runs a test on every backend that this machine has."""

from __future__ import annotations

import pytest


def backends() -> tuple[str, ...]:
    """Backends that can run kernels here."""
    return ("cpu",)


@pytest.fixture(params=backends())
def backend(request: pytest.FixtureRequest) -> str:
    """One after the other, each backend present: ``fk.testing.check(fn, x, backend=backend)``."""
    return str(request.param)
