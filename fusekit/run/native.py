"""Machine code of one function: made by Numba, kept as an object file, run in an engine of its own.

Numba's own dispatchers keep every library that they ever made, in one engine for all, and pickle what goes to the disk.
Here Numba's pipeline stops at the object file; what is in memory is what LLVM's linker made of it, with the Python
function that unpacks arguments, and all of it goes when that function goes.
"""

from __future__ import annotations

import ctypes
import functools
import json
import struct
import types as python
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding import ffi
from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core import codegen, compiler, config, sigutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import Environment
from numba.core.registry import cpu_target

_CONFIG: Any = config
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Code:
    """An object file; in it the symbol of the function that Python calls, the place of its environment, and what it
    needs from outside."""

    wrapper: str
    environment: str
    needs: tuple[str, ...]
    object: bytes

    def to_bytes(self) -> bytes:
        facts = {name: value for name, value in asdict(self).items() if name != "object"}
        head = json.dumps(facts).encode()
        return _LENGTH.pack(len(head)) + head + self.object

    @classmethod
    def from_bytes(cls, data: bytes) -> Code:
        """Of bytes that ``to_bytes`` gave: they are not looked at twice."""
        (length,) = _LENGTH.unpack_from(data)
        facts = json.loads(data[4 : 4 + length])
        return cls(facts["wrapper"], facts["environment"], tuple(facts["needs"]), data[4 + length :])


def facts() -> tuple[str, ...]:
    """What decides the code beside source, options and versions: the processor and Numba's settings now."""
    settings = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "LLVM_REFPRUNE_PASS")
    return (*map(str, _codegen().processor), *(f"{name} {getattr(_CONFIG, name, None)}" for name in settings))


def compiled(function: Callable[..., Any], signature: str, options: dict[str, Any]) -> Code:
    """The function as machine code; ``options`` are those of ``numba.njit``."""
    with global_compiler_lock:
        context: Any = cpu_target.target_context
        target = context.subtarget(_internal_codegen=_codegen())
        library: Any = _codegen().create_library(function.__qualname__)
        flags: Any = compiler.Flags()
        cpu_target.options.parse_as_flags(flags, {"nopython": True, **options})
        flags.no_compile = flags.no_cfunc_wrapper = True
        args, result = sigutils.normalize_signature(signature)
        made: Any = compiler.compile_extra(
            cpu_target.typing_context, target, function, args, result, flags, {}, library=library
        )
        library.finalize()
        names = made.fndesc
        needs = tuple(library.needs())
        return Code(names.llvm_cpython_wrapper_name, names.env_name, needs, library.emit_object())


def lacks(code: Code) -> str | None:
    """A symbol that this process does not have (LLVM would abort it); None where it has all."""
    cpu_target.target_context  # noqa: B018  # Numba makes its own known
    return next((name for name in code.needs if not llvm.address_of_symbol(name)), None)


def loaded(code: Code, name: str) -> Callable[..., Any]:
    """The code as a Python function. Its memory is given back with it."""
    with global_compiler_lock:
        engine = llvm.create_mcjit_compiler(
            llvm.parse_assembly(""), _machine(), use_lmm=_CONFIG.USE_LLVMLITE_MEMORY_MANAGER
        )
        engine.add_object_file(llvm.ObjectFileRef.from_data(code.object))
        engine.finalize_object()
        environment: Any = Environment({"__name__": __name__})
        place = engine.get_global_value_address(code.environment)
        ctypes.c_void_p.from_address(place).value = id(environment)
        address = engine.get_function_address(code.wrapper)
        home = python.ModuleType(__name__)
        return _dynfunc.make_function(home, name, "a compiled kernel", address, environment, (engine,))


def _machine() -> Any:
    """Of the code model that an engine needs to link; an engine owns its own."""
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(jit=True, codemodel="jitdefault")


# ---- Numba's pipeline without its engine -----------------------------------------------------------------------------


class _Library(codegen.JITCodeLibrary):
    """Ends as an optimised module, in no engine."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout
        passes, builder = self._codegen._function_pass_manager()
        for function in ll_module.functions:
            if not function.is_declaration:
                passes.run(function, builder)

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        raise AssertionError(f"{name} is asked for its address before it is linked")

    def needs(self) -> list[str]:
        """Names that are declared and not defined."""
        module: Any = self._final_module
        declared = [one.name for one in (*module.functions, *module.global_variables) if one.is_declaration]
        return [name for name in declared if not name.startswith("llvm.")]

    def emit_object(self) -> bytes:
        """The module as an object file. One that holds addresses of this process would be no such thing."""
        assert not self._dynamic_globals, self._dynamic_globals
        return self._codegen._tm.emit_object(self._final_module)


class _Codegen(codegen.JITCPUCodegen):
    """Numba's, whose pass managers are freed: llvmlite's classes inherit a ``_dispose`` that does nothing."""

    _library_class = _Library

    def __init__(self, name: str):
        super().__init__(name)
        self.processor = self.magic_tuple()

    def _module_pass_manager(self, **options: Any) -> Any:
        passes, builder = super()._module_pass_manager(**options)
        passes._dispose = functools.partial(_call, "LLVMPY_DisposeNewModulePassManger", passes._ptr)
        return passes, builder

    def _function_pass_manager(self, **options: Any) -> Any:
        passes, builder = super()._function_pass_manager(**options)
        passes._dispose = functools.partial(_call, "LLVMPY_DisposeNewFunctionPassManger", passes._ptr)
        return passes, builder


def _call(name: str, pointer: Any) -> None:
    getattr(ffi.lib, name)(pointer)


@cache
def _codegen() -> Any:
    return _Codegen("fusekit")
