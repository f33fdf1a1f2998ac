"""A pytest plugin: the fixture ``fusekit_backend`` runs a test on every backend that this machine has.

pytest imports it in every environment that fusekit is installed in, so it imports nothing but pytest.
"""

from __future__ import annotations

import pytest


@pytest.fixture(params=("cpu",))
def fusekit_backend(request: pytest.FixtureRequest) -> str:
    """One after the other, each backend present: ``fk.testing.check(fn, x, backend=fusekit_backend)``."""
    return str(request.param)
