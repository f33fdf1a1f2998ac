"""The bar shows itself only to people, and only when something lasts."""

from __future__ import annotations

import sys
import time

import pytest

from fusekit.progress import progress


def _seen(seconds: float, capsys: pytest.CaptureFixture[str]) -> str:
    for _ in progress(range(2), "working", "thing", delay=0.05):
        time.sleep(seconds)
    return capsys.readouterr().err


def test_what_lasts_is_shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert "working" in _seen(0.3, capsys)


def test_what_is_short_is_not(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert "working" not in _seen(0.0, capsys)


def test_a_file_gets_no_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    assert not _seen(0.3, capsys)
