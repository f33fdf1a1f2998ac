"""``fk.testing.check``: does fusekit do with a function what eager does?"""

from __future__ import annotations

from collections.abc import Callable

from fusekit.kinds import FLAG, TEXT, expect, expect_function, maybe
from fusekit.run.closeness import Tolerance
from fusekit.run.compare import CheckReport
from fusekit.testing.differential import differential


def check(
    fn: Callable[..., object],
    *args: object,
    rtol: float | None = None,
    atol: float | None = None,
    bitwise: bool = False,
    backend: str | None = None,
    every_step: bool = True,
    **kwargs: object,
) -> CheckReport:
    """Assert that ``fk.jit(fn)`` does with these arguments what ``fn`` does: outputs, mutations, aliasing, errors.

    The arguments stay as they are. ``every_step`` also runs the graph after each pass op by op, so that a failure
    names the first pass after which the program is another one. Raises AssertionError with a table and a script that
    repeats the check; returns the report.
    """
    import fusekit as fk

    expect_function("fk.testing.check", fn)
    expect("fk.testing.check", backend=(backend, maybe(TEXT)), every_step=(every_step, FLAG))
    from fusekit.testing.stages import captured, stages

    tolerance, captures = Tolerance(rtol, atol, bitwise), captured(fn, args, kwargs)
    compiled = fk.jit(fn, backend=backend) if backend else fk.jit(fn)
    report = differential(fn, compiled, args, kwargs, captures=captures, tolerance=tolerance, title=_name(fn))
    if every_step:
        for step, candidate in stages(fn):
            found = differential(
                fn, candidate, args, kwargs, captures=captures, tolerance=tolerance, title=f"{_name(fn)} after {step}"
            )
            report = report if found.ok else found
            if not found.ok:
                break
    assert report.ok, f"{report}\n\nTo repeat it:\n\n{report.repro()}"
    return report


def _name(fn: Callable[..., object]) -> str:
    return getattr(fn, "__name__", type(fn).__name__)
