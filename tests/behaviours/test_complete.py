"""Every number is tested or listed as left out, and none is both."""

import re
from pathlib import Path

HERE = Path(__file__).parent
NUMBERS = {*range(1, 92), *range(108, 141)}


def test_every_number_is_tested_or_listed() -> None:
    tests = "".join(path.read_text() for path in HERE.glob("test_*.py"))
    tested = {int(n) for n in re.findall(r"^def test_b(\d{3})_", tests, re.MULTILINE)}
    left_out = {int(n) for n in re.findall(r"^\| (\d+) \| \S", (HERE / "README.md").read_text(), re.MULTILINE)}
    assert tested | left_out == NUMBERS
    assert not tested & left_out


def test_the_table_names_every_file() -> None:
    named = set(re.findall(r"^\| `(\S+)` \|", (HERE / "README.md").read_text(), re.MULTILINE))
    assert named == {path.name for path in HERE.glob("test_*.py")} - {Path(__file__).name}
