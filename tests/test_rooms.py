"""Who may import whom, and what may not stand in the project's files."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.rooms import RANK, Import, files_of, imports_of, wrong_arrow

TEXT = {".py", ".md", ".toml", ".txt", ".ipynb", ".js", ".css", ".yaml", ".ir", ".svg", ".html", ""}
# What only makes sense on one machine, or to one who was there. This file must name it, so it is left out below.
MACHINE_PATHS = re.compile(r"(?<![\w.~}])/(work|tmp|root|farm|home|opt)/[A-Za-z0-9_.-]")
FORBIDDEN = re.compile(r"\b(prototypes?|TODO|FIXME|XXX|DESIGN\.md|STYLE\.md|DESIGN section)\b")


def test_import_arrows(root):
    wrong = [
        f"{path.relative_to(root)}:{found.line} imports {found.name}: {why}"
        for room, path in files_of(root)
        for found in imports_of(path.read_text("utf-8"))
        if (why := wrong_arrow(room, found))
    ]
    assert not wrong, "\n".join(wrong)


def test_every_module_is_in_a_room(root):
    assert {room for room, _ in files_of(root)} <= set(RANK)


@pytest.mark.parametrize(
    ("room", "name"),
    [
        ("passes", "torch"),
        ("draw", "torch.fx"),
        ("ir", "fusekit.passes.segment"),
        ("index", "fusekit.ir"),
        ("ops", "fusekit.torch_types"),
        ("notebook", "fusekit.exploration"),
        ("passes", "fusekit"),
        ("ids", "fusekit.errors"),
        ("attic", "fusekit.ir"),
        ("run", "relative"),
        ("run", "fusekit.attic"),
    ],
)
def test_a_wrong_arrow_is_found(room, name):
    assert wrong_arrow(room, Import(name, 1))


@pytest.mark.parametrize(
    ("room", "name"),
    [
        ("passes", "fusekit.ir"),
        ("trace", "torch"),
        ("run", "fusekit.torch_types"),
        ("ir", "networkx"),
        ("ir", "fusekit.ir.text"),
    ],
)
def test_a_right_arrow_is_let_through(room, name):
    assert wrong_arrow(room, Import(name, 1)) is None


def test_lazy_and_type_only_imports_are_seen():
    text = """
if TYPE_CHECKING:
    from fusekit.jit import jit
def f():
    import torch
    from fusekit import ir, explore
"""
    assert [(found.name, found.line) for found in imports_of(text)] == [
        ("fusekit.jit", 3),
        ("torch", 5),
        ("fusekit.ir", 6),
        ("fusekit", 6),
    ]


def project_files(root: Path) -> list[Path]:
    """Text files of the project, as git sees them: tracked, or new and not ignored."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    paths = [root / name for name in done.stdout.split("\0") if name]
    return [path for path in paths if path.suffix in TEXT and path.is_file() and path != Path(__file__)]


@pytest.mark.parametrize("pattern", [MACHINE_PATHS, FORBIDDEN], ids=["machine-paths", "forbidden-words"])
def test_files_say_nothing_of_one_machine_or_of_unfinished_work(root, pattern):
    found = [
        f"{path.relative_to(root)}:{number}: {line.strip()[:120]}"
        for path in project_files(root)
        for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, "\n".join(found)
