"""fusekit: a PyTorch function becomes a few fused kernels, and every decision on the way can be seen.

Names are resolved on first use, so that ``import fusekit`` stays cheap and loads no layout engine, no widgets and
no CUDA.
"""

import sys
from importlib import import_module
from types import ModuleType

__version__ = "0.1.0"

# public name -> module that defines it
_HOMES = {
    "CheckReport": "fusekit.exploration",
    "Exploration": "fusekit.exploration",
    "FusekitError": "fusekit.errors",
    "Options": "fusekit.pipeline",
    "PIPELINE": "fusekit.passes",
    "UnsupportedError": "fusekit.errors",
    "clear_cache": "fusekit.jit",
    "cut": "fusekit.exploration",
    "diff": "fusekit.exploration",
    "explore": "fusekit.exploration",
    "jit": "fusekit.jit",
    "last_run": "fusekit.jit",
    "overlap": "fusekit.exploration",
    "parse": "fusekit.ir",
}
_MODULES = ("testing",)

__all__ = ["__version__", *sorted(_HOMES), *_MODULES]


def __getattr__(name: str) -> object:
    """The public name ``name``, imported now (PEP 562)."""
    if name in _MODULES:
        return import_module(f"fusekit.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'fusekit' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})


class _Package(ModuleType):
    """Importing the module ``fusekit.jit`` would put it where the function ``fusekit.jit`` belongs; here it doesn't."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in _HOMES and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
