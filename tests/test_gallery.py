"""The committed gallery is what ``make gallery`` gives now."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_gallery_is_current() -> None:
    command = [sys.executable, str(ROOT / "gallery" / "build.py"), "--check"]
    here = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=here, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
