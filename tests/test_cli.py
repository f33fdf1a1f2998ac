"""The command line: what it answers, with which exit status, and what a mistake says."""

import re
import tomllib

import pytest

from fusekit import cli, doctor


def test_version_is_the_packages(capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["--version"])
    assert end.value.code == 0
    assert re.fullmatch(r"fusekit \d+\.\d+\.\d+\n", capsys.readouterr().out)


def test_no_command_is_a_mistake(capsys):
    with pytest.raises(SystemExit) as end:
        cli.main([])
    assert end.value.code == 2
    assert "command" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("math", "names no function"),
        ("no_such_module:f", "there is no module 'no_such_module'"),
        ("math:no_such_function", "math has no 'no_such_function'"),
        ("math:sin", "math:sin has no default for x"),
    ],
)
def test_report_says_what_is_wrong(capsys, function, says):
    assert cli.main(["report", function]) == 2
    assert says in capsys.readouterr().err


def test_a_module_that_lacks_a_module_of_its_own_is_not_blamed_on_the_user(tmp_path, monkeypatch):
    (tmp_path / "needs_another.py").write_text("import no_such_dependency\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        cli.load_function("needs_another:f")


def test_doctor_answers_every_question(capsys):
    assert cli.main(["doctor"]) == 0
    text = capsys.readouterr().out
    for subject in (
        "Python",
        "torch",
        "networkx",
        "layout engine",
        "CUDA devices",
        "ptxas",
        "Numba threads",
        "cache folder",
    ):
        assert subject in text
    assert "could not be asked" not in text


def test_doctor_mends_what_is_missing(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "PACKAGES", (("no-such-package", "1.0", "nothing"), ("numpy", "999", "arrays")))
    monkeypatch.setattr(doctor, "PROBES", (doctor._packages,))
    assert doctor.main() == 0
    text = capsys.readouterr().out
    assert "pip install 'no-such-package>=1.0'" in text
    assert "is older than 999" in text
    assert "2 thing(s) missing" in text


def test_doctor_survives_a_broken_package(capsys, monkeypatch):
    def _broken() -> list[doctor.Finding]:
        raise OSError("a library does not load")

    monkeypatch.setattr(doctor, "PROBES", (_broken,))
    assert doctor.main() == 0
    assert "could not be asked: OSError: a library does not load" in capsys.readouterr().out


def test_doctor_asks_for_what_the_project_needs(root):
    needs = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    assert {need.split(";")[0] for need in needs} == {f"{name}>={floor}" for name, floor, _ in doctor.PACKAGES}


@pytest.mark.parametrize(
    ("version", "numbers"), [("2.13.0+cpu", (2, 13, 0)), ("3.6rc1", (3, 6)), ("2026.2.2", (2026, 2, 2))]
)
def test_releases_compare_as_numbers(version, numbers):
    assert doctor._release(version) == numbers
