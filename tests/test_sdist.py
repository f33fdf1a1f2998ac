"""The source distribution holds every file of the repository: its tests run from it."""

import shutil
import subprocess
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path

import pytest

BUILD = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"


@pytest.mark.skipif(find_spec("setuptools") is None, reason="not installed: setuptools")
def test_the_source_distribution_is_whole(root: Path, tmp_path: Path) -> None:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    names = [name for name in done.stdout.split("\0") if name and (root / name).is_file()]
    for name in names:
        (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, tmp_path / "source" / name)
    made = subprocess.run(
        [sys.executable, "-c", BUILD, str(tmp_path)],
        cwd=tmp_path / "source",
        capture_output=True,
        text=True,
        check=False,
    )
    assert not made.returncode, made.stderr
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        held = {member.name.partition("/")[2] for member in packed.getmembers()}
    assert not set(names) - held
