"""Run and check as results that a page can show: an error is a result, too."""

from __future__ import annotations

import reprlib
import time
import traceback

from fusekit.notebook.explored import Explored
from fusekit.notebook.state import Result

LONGEST = 4000  # characters of a returned value or an error
MOST_ROWS = 200


def check(x: Explored) -> Result:
    """What eager and the kernels give, fact by fact; the rows that differ come first."""
    try:
        found = x.check()
    except Exception as error:
        return failed(error)
    order = (*found.failures, *(row for row in found.rows if row.ok))
    rows = tuple(("✓" if row.ok else "✗", row.what, row.eager, row.fusekit) for row in order[:MOST_ROWS])
    if found.ok:
        return Result("ok", f"the same, {len(found.rows)} facts", rows)
    sentence = f"{len(found.failures)} of {len(found.rows)} facts differ"
    return Result("differs", sentence, rows, _repro(found.repro))


def run(x: Explored) -> Result:
    """What one run on clones of the explored arguments returns, and how long it took, compiling included."""
    started = time.perf_counter()
    try:
        value = x.run()
    except Exception as error:
        return failed(error)
    took = time.perf_counter() - started
    return Result("ok", f"{duration(took)}, compiling included", (), _cut(_shown(value)))


def failed(error: Exception) -> Result:
    """The error's class and message; where it came from stands below."""
    try:
        text = "".join(traceback.format_exception(error))
    except ValueError:  # a file's name that no file can have: Python looks its lines up
        text = ""
    return Result("failed", f"{type(error).__name__}: {error}"[:LONGEST], (), text[-LONGEST:])


def duration(seconds: float) -> str:
    """``41 µs``, ``1.8 ms``, ``2.4 s``."""
    for limit, factor, unit in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
        if seconds < limit:
            value = seconds * factor
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"
    return f"{seconds:.1f} s"


def _repro(script: object) -> str:
    try:
        return _cut(str(script())) if callable(script) else ""
    except Exception as error:  # the report matters more than its script
        return f"# the script could not be written: {error}"


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:
        return reprlib.repr(type(value))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + "\n…"
