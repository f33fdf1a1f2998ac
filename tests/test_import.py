"""``import fusekit`` is cheap: what is heavy, or may be missing, is loaded by what needs it. No times are measured."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fusekit
from tests.rooms import TORCH_FREE, modules_of

LATE = {"anywidget", "graphviz", "ipywidgets", "islpy", "numba.cuda", "pygraphviz"}


def loaded_by(statement: str) -> set[str]:
    """Names of the modules that a fresh Python has after ``statement``."""
    script = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return set(done.stdout.split())


def test_import_of_the_package_loads_nothing_heavy():
    assert not loaded_by("import fusekit, fusekit.cli") & {*LATE, "torch", "numba", "networkx"}


def test_torch_free_rooms_load_no_torch(root):
    modules = [module for room in TORCH_FREE for module in modules_of(root, room)]
    assert "torch" not in loaded_by(f"import {', '.join(modules)}")


@pytest.mark.parametrize("name", sorted(fusekit._HOMES))
def test_a_public_name_resolves(name):
    assert getattr(fusekit, name) is vars(sys.modules[fusekit._HOMES[name]])[name]


def test_type_checkers_see_the_names_that_users_see():
    tree = ast.parse(Path(fusekit.__file__).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {name.asname: node.module for node in block.body if isinstance(node, ast.ImportFrom) for name in node.names}
    assert seen == fusekit._HOMES


def test_a_submodule_never_hides_a_public_function():
    statement = "import fusekit.jit, fusekit as fk, types\nassert not isinstance(fk.jit, types.ModuleType)"
    assert "fusekit.jit" in loaded_by(statement)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'fuze'"):
        fusekit.fuze


def test_public_names_are_listed():
    assert {"explore", "jit", "Options", "PIPELINE", "parse", "overlap", "testing"} <= set(dir(fusekit))
