"""fusekit: a PyTorch function becomes a few fused kernels, and every decision on the way can be seen.

Names are resolved on first use, so that ``import fusekit`` stays cheap and loads no layout engine, no widgets and
no CUDA.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # for editors and type checkers; a test holds it against _HOMES
    from fusekit import testing as testing
    from fusekit.errors import FusekitError as FusekitError
    from fusekit.errors import UnsupportedError as UnsupportedError
    from fusekit.exploration import CheckReport as CheckReport
    from fusekit.exploration import Exploration as Exploration
    from fusekit.exploration import cut as cut
    from fusekit.exploration import diff as diff
    from fusekit.exploration import explore as explore
    from fusekit.exploration import overlap as overlap
    from fusekit.ir import parse as parse
    from fusekit.jit import clear_cache as clear_cache
    from fusekit.jit import jit as jit
    from fusekit.jit import last_run as last_run
    from fusekit.passes import PIPELINE as PIPELINE
    from fusekit.pipeline import Options as Options
    from fusekit.why import Reason as Reason

__version__ = "0.1.0"

# public name -> module that defines it ("fusekit" itself: the name is a module)
_HOMES = {
    "CheckReport": "fusekit.exploration",
    "Exploration": "fusekit.exploration",
    "FusekitError": "fusekit.errors",
    "Options": "fusekit.pipeline",
    "PIPELINE": "fusekit.passes",
    "Reason": "fusekit.why",
    "UnsupportedError": "fusekit.errors",
    "clear_cache": "fusekit.jit",
    "cut": "fusekit.exploration",
    "diff": "fusekit.exploration",
    "explore": "fusekit.exploration",
    "jit": "fusekit.jit",
    "last_run": "fusekit.jit",
    "overlap": "fusekit.exploration",
    "parse": "fusekit.ir",
    "testing": "fusekit",
}


def __getattr__(name: str) -> object:
    """The public name ``name``, imported now (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'fusekit' has no attribute {name!r}")
    value = import_module(f"fusekit.{name}") if home == "fusekit" else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


class _Package(ModuleType):
    """Importing the module ``fusekit.jit`` would put it where the function ``fusekit.jit`` belongs; here it doesn't."""

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and _HOMES.get(name) == f"fusekit.{name}":
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
