"""The command line: what it answers, with which exit status, and what a mistake says."""

import re
import sys
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


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (
            "import no_such_dependency\n",
            "importing stranger raised ModuleNotFoundError: No module named 'no_such_depen",
        ),
        ("def f(:\n", "importing stranger raised SyntaxError"),
        ("raise ValueError('a\\x1b[2J\\nb')\n", "raised ValueError: a\\x1b[2J\\nb at "),
        ("import sys\nsys.exit(3)\n", "raised SystemExit: 3"),
        ("def f():\n    return 1 / 0\n", "stranger:f() raised ZeroDivisionError: division by zero at "),
        ("import torch\ndef f(x=torch.ones(2)):\n    return x @ torch.ones(3)\n", "stranger:f raised RuntimeError"),
    ],
)
def test_what_a_users_module_raises_is_told_in_one_line(tmp_path, monkeypatch, capsys, source, says):
    (tmp_path / "stranger.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "stranger", raising=False)
    assert cli.main(["report", "stranger:f", "--out", str(tmp_path / "x.html")]) == 2
    told = capsys.readouterr().err
    assert says in told and told.count("\n") == 1 and told.strip().isprintable()


@pytest.mark.parametrize(
    "words",
    [
        ["demo", "--out", "/proc/x"],
        ["report", "../x:f"],
        ["report", ".x:f"],
        ["report", "x/y:f"],
        ["report", "a b:f"],
        ["report", ":f"],
        ["report", "\x1b[2J\n:f"],
        ["report", "math:\x1b[2J"],
        ["report", "math:pi"],
        ["report", "fusekit.programs.everyday:no\ud800"],
    ],
)
def test_a_mistake_is_one_line_and_no_traceback(capsys, words):
    assert cli.main(words) == 2
    told = capsys.readouterr().err
    assert told.startswith("fusekit: ") and told.count("\n") == 1 and told.strip().isprintable()


def test_a_page_that_cannot_be_written_is_one_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "plain.py").write_text("import torch\ndef f(x=torch.ones(2)):\n    return x * 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert cli.main(["report", "plain:f", "--no-check", "--out", str(tmp_path / "plain.py" / "x.html")]) == 2
    told = capsys.readouterr().err
    assert told.startswith("fusekit: ") and told.count("\n") == 1


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
