"""A real Chromium and a real JupyterLab for the tests of the page; what is missing is said as the reason to skip."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
)  # fmt: skip
CHROMIUM = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)


def lacks(*modules: str) -> str | None:
    """Why no browser test can run here; None where one can."""
    missing = [name for name in ("playwright", *modules) if importlib.util.find_spec(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    return None if CHROMIUM else "no Chromium on PATH"


@contextmanager
def chromium() -> Iterator[object]:
    """A browser of playwright with a profile of its own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def jupyterlab(folder: Path, root: Path) -> Iterator[str]:
    """A JupyterLab over ``folder``; the address of its page. Its settings, data and runtime files are its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = folder / ".jupyter-of-the-test"
    places = {f"JUPYTER_{kind}_DIR": str(own / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")}
    environment = {**os.environ, **places, "IPYTHONDIR": str(own / "ipython"), "PYTHONPATH": str(root)}
    settings = own / "config" / "lab" / "user-settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text(
        json.dumps({"fetchNews": "false", "checkForUpdates": False})
    )
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}", "--ip=127.0.0.1",
        "--IdentityProvider.token=", "--ServerApp.password=", "--LabApp.news_url=", f"--ServerApp.root_dir={folder}",
        "--ServerApp.port_retries=0",
    ]  # fmt: skip
    with (own / "log").open("w") as log:
        server = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait(f"{address}/api/status", server, own / "log")
        yield address
    finally:
        server.terminate()
        server.wait(20)


def _wait(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if server.poll() is not None:
            raise RuntimeError(f"JupyterLab ended: {log.read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(address, timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(log.read_text()[-2000:])


def write_notebook(path: Path, *cells: str) -> Path:
    """A notebook of these code cells."""
    made = [
        {"cell_type": "code", "id": f"c{k}", "metadata": {}, "outputs": [], "execution_count": None, "source": text}
        for k, text in enumerate(cells)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path.write_text(json.dumps({"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}))
    return path


def run_all(page: object, address: str, notebook: str) -> None:
    """Open the notebook, wait for a kernel that really answers, run its cells."""
    page.goto(f"{address}/lab/tree/{notebook}?reset")  # type: ignore[attr-defined]
    page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=60_000)  # type: ignore[attr-defined]
    page.wait_for_function("document.body.innerText.includes('| Idle')", timeout=60_000)  # type: ignore[attr-defined]
    for k in range(page.locator(".jp-CodeCell").count()):  # type: ignore[attr-defined]
        page.locator(".jp-CodeCell .cm-content").nth(k).click()  # type: ignore[attr-defined]
        page.keyboard.press("Control+Enter")  # type: ignore[attr-defined]
