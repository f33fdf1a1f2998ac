"""What intrinsics are made with. numba-cuda puts itself over ``numba.cuda`` at run time, which no type checker sees."""

from importlib import import_module
from typing import Any

types: Any = import_module("numba.cuda.types")
cgutils: Any = import_module("numba.cuda.cgutils")
intrinsic: Any = import_module("numba.cuda.extending").intrinsic
