"""The command line: ``fusekit demo``, ``fusekit report``, ``fusekit doctor``."""

import argparse
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from fusekit import __version__
from fusekit.errors import FusekitError, UnsupportedError
from fusekit.escape import line


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0 right, 1 something is not, 2 a mistake of the caller's."""
    arguments = _parser().parse_args(argv)
    try:
        return arguments.action(arguments)
    except (FusekitError, OSError) as error:  # of the system's errors those of the files that the caller named
        print(line(f"fusekit: {type(error).__name__}: {error}"), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("fusekit: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fusekit",
        description="A PyTorch function becomes a few fused kernels; see how, and check that it is right.",
    )
    parser.add_argument("--version", action="version", version=f"fusekit {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="command")

    demo = commands.add_parser("demo", help="explore, run and check a set of programs; write their pictures")
    demo.add_argument("--all", action="store_true", help="every program in more sizes and dtypes")
    demo.add_argument("--out", type=Path, default=Path("out/demo"), help="where the pictures go (default: %(default)s)")
    demo.set_defaults(action=_demo)

    report = commands.add_parser("report", help="one self-contained HTML page that explains a function")
    report.add_argument(
        "function",
        metavar="module:function",
        help="a function whose arguments have defaults, or one without parameters that returns (fn, args)",
    )
    report.add_argument("--out", type=Path, default=Path("out/report.html"), help="the page (default: %(default)s)")
    report.add_argument("--no-check", dest="check", action="store_false", help="leave out running it against eager")
    report.set_defaults(action=_report)

    doctor = commands.add_parser("doctor", help="what this machine has, what is missing, and how to get it")
    doctor.set_defaults(action=_doctor)
    return parser


def _demo(arguments: argparse.Namespace) -> int:
    from fusekit import demo

    return demo.main(everything=arguments.all, out=arguments.out)


def _report(arguments: argparse.Namespace) -> int:
    from fusekit.exploration import explore

    fn, args, kwargs = program_of(arguments.function)
    with _told(arguments.function):
        x = explore(fn, *args, **kwargs)
    written = x.report(arguments.out, check=arguments.check)
    print(line(f"{written}: {x.name}, {len(x.steps)} steps, {x.summary()}"))
    return 0


def program_of(path: str) -> tuple[Callable[..., object], tuple[object, ...], dict[str, Any]]:
    """What ``module:function`` asks to explore: the function on its defaults, or what a function without parameters
    returns, which is ``(fn, args)`` or ``(fn, args, kwargs)``. Raises UnsupportedError where neither is so."""
    found = load_function(path)
    if not callable(found):
        raise UnsupportedError(f"{path!r} is no function", fix="name a function or a module")
    parameters = _parameters(found)
    if not parameters:
        with _told(f"{path}()"):
            made = found()
        return _made(path, made)
    lacking = [p.name for p in parameters if p.default is p.empty]
    if lacking:
        fix = "give each a default, or name a function without parameters that returns (fn, args)"
        raise UnsupportedError(f"{path} has no default for {', '.join(lacking)}", path, fix)
    args = tuple(p.default for p in parameters if p.kind is not p.KEYWORD_ONLY)
    return found, args, {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def _parameters(function: Callable[..., object]) -> list[inspect.Parameter]:
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    try:
        signature = inspect.signature(getattr(function, "forward", function))
    except ValueError as error:  # a builtin without a signature
        raise UnsupportedError(str(error), fix="wrap it in a function of your own") from None
    return [p for p in signature.parameters.values() if p.kind not in several]


def _made(path: str, made: object) -> tuple[Callable[..., object], tuple[object, ...], dict[str, Any]]:
    match made:
        case (fn, tuple() | list() as args) if callable(fn):
            return fn, tuple(args), {}
        case (fn, tuple() | list() as args, dict() as kwargs) if callable(fn):
            return fn, tuple(args), kwargs
    fix = "a function without parameters returns (fn, args) or (fn, args, kwargs)"
    raise UnsupportedError(f"{path}() returned {type(made).__name__}", path, fix)


def _doctor(_: argparse.Namespace) -> int:
    from fusekit import doctor

    return doctor.main()


@contextmanager
def _told(what: str) -> Iterator[None]:
    """What the user's own code raises, as an error of one line that names its last line of the user's."""
    try:
        yield
    except FusekitError:
        raise
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and what.startswith("importing ") and f"{what[10:]}.".startswith(f"{missing}."):
            fix = "run from its folder or install it"
            raise UnsupportedError(f"there is no module {missing!r}", what, fix) from None
        from fusekit.trace.origin import line_of_error

        fix = "call it in Python for the whole traceback"
        raise UnsupportedError(f"{what} raised {type(error).__name__}: {error}", line_of_error(error), fix) from error


def load_function(path: str) -> object:
    """The object that ``module:function`` names; ``UnsupportedError`` says which half of it is wrong."""
    module_name, _, name = path.partition(":")
    if not name or not all(part.isidentifier() for part in module_name.split(".")):
        raise UnsupportedError(
            f"{path!r} names no function", fix="write it as module:function, such as my_model:forward"
        )
    sys.path.insert(0, "")
    try:
        with _told(f"importing {module_name}"):
            module = import_module(module_name)
    finally:
        sys.path.remove("")
    try:
        return getattr(module, name)
    except AttributeError:
        raise UnsupportedError(f"{module_name} has no {name!r}", path, "name a function that it defines") from None
