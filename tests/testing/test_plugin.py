"""The pytest plugin costs a project nothing until it asks for the fixture, whose name nobody else takes."""

import os
import subprocess
import sys
import tomllib

TEST = """
import sys

import pytest

HEAVY = {{"torch", "numba", "numpy", "networkx"}}


def test_nothing_is_loaded():
    assert not HEAVY & set(sys.modules)
    assert {{name for name in sys.modules if name.startswith("fusekit.")}} == {{"{plugin}"}}


def test_the_name_is_free(request):
    with pytest.raises(pytest.FixtureLookupError):
        request.getfixturevalue("backend")


def test_the_fixture(fusekit_backend):
    assert fusekit_backend == "cpu"
"""


def test_a_project_that_does_not_use_it_pays_nothing(root, tmp_path):
    plugin = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]["pytest11"]
    ((name, module),) = plugin.items()
    assert name == module  # else a project that asks for the module by name would register it twice
    (tmp_path / "test_other.py").write_text(TEST.format(plugin=module))
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(root)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", module, "-p", "no:cacheprovider", "test_other.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stdout + done.stderr
    assert "3 passed" in done.stdout
