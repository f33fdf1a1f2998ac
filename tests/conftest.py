"""Tests are filed by what they need: plain ones run anywhere, the marked ones where their need is met."""

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the whole project."""
    return ROOT


def pytest_configure(config: pytest.Config) -> None:
    """Tests find one another's kernels, in all processes of a run, and never those of the user."""
    if "FUSEKIT_CACHE" not in os.environ:
        folder = tempfile.mkdtemp(prefix="fusekit-tests-")
        os.environ["FUSEKIT_CACHE"] = folder
        config.add_cleanup(lambda: _forget(folder))


def _forget(folder: str) -> None:
    os.environ.pop("FUSEKIT_CACHE", None)
    shutil.rmtree(folder, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    lacks = {}
    if any("cuda" in item.keywords for item in items) and not _has_cuda():
        lacks["cuda"] = "no CUDA device"
    if not all(map(importlib.util.find_spec, ("nbclient", "ipykernel"))):
        lacks["notebook"] = "Jupyter is not installed"
    for item in items:
        for marker in item.iter_markers():
            if marker.name in lacks:
                item.add_marker(pytest.mark.skip(reason=lacks[marker.name]))


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden texts anew instead of comparing them")
