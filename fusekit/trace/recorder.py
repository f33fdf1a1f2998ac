"""The dispatch mode of a recording: every ATen op is checked as eager would, run on fakes, and written down."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any, TypeVar

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    UnsupportedOperatorException,
)
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from fusekit.errors import UnsupportedError
from fusekit.ir import Origin
from fusekit.torch_types import FROM_TORCH
from fusekit.trace import eager_rules, foreign, refusals
from fusekit.trace.border import Border, Fakes
from fusekit.trace.conjugates import Conjugates
from fusekit.trace.nested import mapped, tensors_in
from fusekit.trace.oracle import Verdict, ask_eager, is_filling, may_raise, strides_of
from fusekit.trace.origin import UNKNOWN, user_origin
from fusekit.trace.private import C
from fusekit.trace.program import Call, ObjectRef, Place, Ref, Room
from fusekit.trace.resizing import RESIZING, resize, resize_destinations
from fusekit.trace.schema import base_name, defined_results, destinations_for, operands
from fusekit.trace.told import as_told

T = TypeVar("T")
aten = torch.ops.aten
NEEDS_DATA = (DataDependentOutputException, DynamicOutputShapeException)
_UNRECORDED = (aten._local_scalar_dense.default, aten.sym_size.default)
_ABSOLUTE = ("aten::as_strided", "aten::as_strided_")  # their offsets count from the start of the storage
_NOWHERE = 1 << 60  # addresses from here on are of no memory


class Recorder(TorchDispatchMode):
    """Writes calls down; also keeps the memo between the caller's real tensors and their fakes."""

    def __init__(self, border: Border, stop: CodeType, seen: foreign.Seen = ()):
        super().__init__()
        self.border, self.stop = border, stop
        self.fakes = Fakes(allow_non_fake_inputs=False)
        self.seen = seen  # foreign calls of a watched run
        self.foreign: list[tuple[str, tuple[foreign.Layout, ...]]] = []  # foreign calls of this one
        self.calls: list[Call] = []
        self.first: dict[int, Place] = {}
        self.constants: list[tuple[torch.Tensor, int]] = []  # (private copy, object)
        self.objects: dict[int, tuple[torch.Generator, ObjectRef]] = {}  # by address
        self.swapped: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # id of a real tensor -> (it, its fake)
        self.versions: dict[int, int | None] = {}
        self.is_exact = False  # storages matter as such: as_strided, view(dtype)
        self.is_asking = False  # eager is being asked right now
        self.is_data = False  # .data is being read right now: what it gives has a version counter of its own
        self.refused: UnsupportedError | None = None
        self.handles: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # id of a handle -> (it, its fake)
        self._of_handles: dict[int, int] = {}  # a handle's storage -> its id
        self._real: dict[int, torch.Tensor] = {}  # id of a fake -> what the function holds for it
        self._numbers: dict[int, int] = {}
        self._storages: dict[int, int] = {}
        self._rooms: list[Room] = []
        self._bytes: dict[int, int] = {}
        self._keep: list[Any] = []  # ids are only good while their objects live
        self.conjugates = Conjugates(self)

    # ---- real <-> fake

    def fake(self, t: torch.Tensor, where: str | None = None) -> torch.Tensor:
        """The stand-in of a real tensor, made at its first use; ``where`` names it in a refusal (else: the line)."""
        if isinstance(t, FakeTensor):
            return t
        found = self.swapped.get(id(t)) or self.handles.get(id(t))
        if found is None and (handle := self._handle_under(t)) is not None:
            return self._parameter(t, handle)
        if found is None:
            with _disable_current_modes(), torch._C.DisableTorchFunction(), self.watch_refusals():
                refusals.refuse_tensor(t, where or self.where())
                fake = self.fakes.from_tensor(t)
            self.swapped[id(t)] = found = (t, fake)
            self.versions[id(t)] = None if t.is_inference() else t._version
            self._real[id(fake)] = t
            self._storage_of(fake, t.untyped_storage())
            self.ref(fake)
        elif found[0].requires_grad and not found[1].requires_grad and id(t) in self.handles:
            what = "a result of an autograd.Function that requires grad"
            with self.watch_refusals():
                raise UnsupportedError(what, where or self.where(), refusals.OR_NO_GRAD)
        return found[1]

    def _handle_under(self, t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
        """The handle, and its stand-in, whose memory a tensor that torch's C++ made has."""
        if not self._of_handles or type(t) not in (torch.Tensor, torch.nn.Parameter) or t.layout != torch.strided:
            return None
        key = None if C._functorch.is_functorch_wrapped_tensor(t) else self._of_handles.get(t.untyped_storage()._cdata)
        return None if key is None else self.handles[key]

    def _parameter(self, t: torch.Tensor, under: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """The stand-in of ``nn.Parameter(y)``, which is no torch function."""
        handle, base = under
        if t.shape != handle.shape or t.dtype != handle.dtype:
            with self.watch_refusals():
                raise UnsupportedError("a view made past torch's Python functions", self.where())
        fake = base.detach().requires_grad_(t.requires_grad)
        self._real[id(fake)] = t
        self.handles[id(t)] = (self.border.watch(t), fake)
        return fake

    def real(self, t: torch.Tensor) -> torch.Tensor:
        """What the function holds for a stand-in: the caller's tensor, or a handle, a plain tensor of no data.

        The stand-ins themselves stay inside: they are of a subclass, and Python tries ``y < x`` for ``x > y`` where
        ``y`` is of a subclass of ``type(x)``; ``type(y)`` would tell as well.
        """
        known = self._real.get(id(t))
        if known is not None and not (t.requires_grad and id(known) in self.handles and not known.requires_grad):
            return known
        if isinstance(t, FakeTensor):
            if known is not None:  # C++ code of an autograd.Function asks it
                return known.requires_grad_()
            handle = self.border.stand_in(t)
            self._real[id(t)] = handle
            self.handles[id(handle)] = (handle, t)
            self._of_handles[handle.untyped_storage()._cdata] = id(handle)
        return self._real.get(id(t), t)

    def let_go(self) -> None:
        """The run is over: the stand-ins are no longer known, and the fakes compute nothing more."""
        for held, fake in self.handles.values():
            if self._real.get(id(fake)) is held:
                del self._real[id(fake)]
        self.handles.clear()
        self.fakes.is_over = True

    def origin_of(self, t: torch.Tensor | None) -> Origin | None:
        """The user's line that made a fake."""
        number = self._numbers.get(id(t))
        return next((call.origin for call in reversed(self.calls) if number in call.results), None)

    def is_callers(self, t: Any) -> bool:
        """A tensor that the function did not make."""
        return isinstance(t, torch.Tensor) and not isinstance(t, FakeTensor) and id(t) not in self.handles

    # ---- numbers of objects and storages

    def ref(self, t: torch.Tensor) -> Ref:
        number = self._numbers.get(id(t))
        if number is None:
            number = self._numbers[id(t)] = len(self._numbers)
            self._keep.append(t)
            self.first[number] = self.place(t)
        return Ref(number)

    def is_known(self, t: torch.Tensor) -> bool:
        return id(t) in self._numbers

    def _storage_of(self, t: torch.Tensor, real: torch.UntypedStorage | None = None) -> int:
        storage = t.untyped_storage()
        number = self._storages.get(storage._cdata)
        if number is None:
            number = self._storages[storage._cdata] = len(self._rooms)
            nbytes = storage.nbytes() if real is None else real.nbytes()
            self._rooms.append(Room(nbytes, None if real is None else real.data_ptr(), t.device))
            self._bytes[storage._cdata] = nbytes
            self._keep.append(storage)
        return number

    def place(self, t: torch.Tensor) -> Place:
        return Place(self._storage_of(t), int(t.storage_offset()), tuple(t.shape), t.stride(), t.dtype, t.device)

    def room(self, t: torch.Tensor) -> int:
        """Bytes of the tensor's storage."""
        storage = t.untyped_storage()
        return self._bytes.get(storage._cdata, None) or storage.nbytes()

    def make_room(self, t: torch.Tensor, nbytes: int) -> bool:
        """Is the tensor's storage this large? One that the program makes is from now on, and so is one of the caller's
        that has no byte yet, which is nowhere."""
        number = self._storage_of(t)
        room = self._rooms[number]
        if room.nbytes < nbytes and (room.address is None or not room.nbytes or room.address >= _NOWHERE):
            address = None if room.address is None else (number + 1) * _NOWHERE
            self._rooms[number] = Room(nbytes, address, room.device)
            self._bytes[t.untyped_storage()._cdata] = nbytes
        return self._rooms[number].nbytes >= nbytes

    def _is_absolute(self, func: OpOverload, results: Sequence[torch.Tensor]) -> bool:
        """Does the call count from the start of a storage that the program did not make?"""
        if func._schema.name not in _ABSOLUTE and func is not aten.view.dtype:
            return False
        return any(self._rooms[self._storage_of(t)].address is not None for t in results)

    def rooms(self) -> tuple[Room, ...]:
        return tuple(self._rooms)

    # ---- refusals

    def where(self) -> Origin | None:
        """The user's line, where one is running."""
        origin = user_origin(self.stop)
        return origin if origin is not UNKNOWN else None

    @contextlib.contextmanager
    def watch_refusals(self) -> Iterator[None]:
        """A refusal that the user's own ``except`` swallows is raised at the end all the same."""
        try:
            yield
        except UnsupportedError as error:
            self.refused = self.refused or error
            raise

    # ---- the mode

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        with self.watch_refusals():
            refusals.refuse_op(func, self.where)
            self._refuse_past(func, args, kwargs)
            self._raise_as_eager(func, args, kwargs)
            if func.namespace in ("prim", "profiler") or func in _UNRECORDED:
                return self.run(func, args, kwargs)
            if func in RESIZING:
                return resize(self, func, args, kwargs)
            if func is aten._conj.default:
                copy = self._record(aten._conj_physical.default, args, kwargs)
                self.conjugates.note(args[0], copy)
                return copy
            if func is aten._efficientzerotensor.default:  # zeros without memory, autograd's answer to an exact zero
                func = aten.zeros.default
            if func is aten.where.self and args[0].dtype == torch.uint8:  # eager takes it, fakes do not
                args = (self._record(aten._to_copy.default, (args[0],), {"dtype": torch.bool}), *args[1:])
            return self._record(func, args, kwargs)

    def _record(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # a literal must be a fresh tensor at each call, or an in-place op would eat the constant
        target = aten.lift_fresh_copy.default if func is aten.lift_fresh.default else func
        if self.is_data and func is aten.detach.default:
            target = aten.data.default
        with _disable_current_modes():
            low_args = tuple(self._lower(value) for value in args)
            low_kwargs = {key: self._lower(value) for key, value in kwargs.items()}
        written = list(tensors_in(operands(func, args, kwargs)[0]))
        before = [self.place(t) for t in written]
        out = self._restrided(func, args, kwargs, self.run(func, args, kwargs))
        if foreign.is_foreign(func):
            out = self._as_seen(func, out)
        out = self.asking(lambda: as_told(func, args, kwargs, out, self.room))
        out = destinations_for(func, out, written)
        results = defined_results(func, list(tensors_in(out)))
        self._check_results(func, results, written)
        name = base_name(func)
        if not eager_rules.is_reshaping(name):
            for t, place in zip(written, before, strict=True):
                if name.endswith("_") and tuple(t.shape) != place.sizes:  # fakes grow where eager raises
                    shapes = f"{list(place.sizes)} doesn't match the broadcast shape {list(t.shape)}"
                    raise RuntimeError(f"output with shape {shapes}")
            resize_destinations(self, func, args, kwargs, written, before)
        self.is_exact |= self._is_absolute(func, results)
        self.calls.append(
            Call(
                target,
                low_args,
                low_kwargs,
                tuple(self.ref(t).index for t in results),
                tuple(self.place(t) for t in results),
                tuple(self.ref(t).index for t in written),
                user_origin(self.stop),
            )
        )
        return out

    def _restrided(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        """The results with eager's strides: some fakes are made by formulas that make others."""
        if func is aten.view.default and not out.numel() and out.shape == args[0].shape:  # eager leaves them alone
            seen = args[0]
            return self.run(aten.as_strided.default, (seen, seen.shape, seen.stride(), seen.storage_offset()), {})
        # Stand-ins of select_scatter and the like have their operand's offset, unless the stand-ins' cache answers.
        if base_name(func).endswith("_scatter") and out.storage_offset():
            out = torch.empty_strided(out.shape, out.stride(), dtype=out.dtype, device=out.device)
        wanted = self.asking(lambda: strides_of(func, args, kwargs, self.room))
        found = list(tensors_in(out))
        if wanted is None or len(wanted) != len(found):
            return out
        given = {id(t) for t in tensors_in([list(args), kwargs])}
        right = {
            id(t): torch.empty_strided(t.shape, strides, dtype=t.dtype, device=t.device)
            for t, (shape, strides) in zip(found, wanted, strict=True)
            if id(t) not in given and tuple(t.shape) == shape and t.stride() != strides
        }
        return mapped(out, lambda t: right.get(id(t), t)) if right else out

    def _as_seen(self, func: OpOverload, out: Any) -> Any:
        """A foreign call's results with the layouts that were seen in eager, where there was such a call."""
        number, is_fresh = len(self.foreign), all(result.alias_info is None for result in func._schema.returns)
        if number < len(self.seen) and self.seen[number][0] == str(func) and is_fresh:
            out = foreign.restated(out, self.seen[number][1])
        self.foreign.append((str(func), tuple(map(foreign.layout_of, tensors_in(out)))))
        return out

    def _lower(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if not isinstance(value, FakeTensor) and not self.is_known(value):  # a literal: torch.tensor([...])
                copy = value.detach().clone()
                self._storage_of(value, copy.untyped_storage())
                self.constants.append((copy, self.ref(value).index))
            return self.ref(value)
        if isinstance(value, torch.Generator):
            return self.object_ref(value)
        if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
            return type(value)([self._lower(item) for item in value])
        return value

    def object_ref(self, value: Any, symbol: str | None = None) -> ObjectRef:
        """How ops name a generator; ``symbol`` at its first mention, else ``object:<n>``."""
        key = value._cdata  # Python may see one generator as several objects
        if key not in self.objects:
            count = sum(ref.symbol.startswith("object:") for _, ref in self.objects.values())
            self.objects[key] = (value, ObjectRef(symbol or f"object:{count}"))
        return self.objects[key][1]

    def _refuse_past(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """What the function holds comes here only past the function mode."""
        if any(id(t) in self.handles or id(t) in self.swapped for t in tensors_in([list(args), kwargs])):
            what = f"{func} was called past torch's Python functions (by TorchScript?)"
            raise UnsupportedError(what, self.where(), "call the Python function instead")

    # ---- eager's errors, and ours

    def _raise_as_eager(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        probed = self._may_raise(func, args, kwargs)
        if probed is not None and is_filling(func):
            raise copy.copy(probed)  # the answer itself is kept, and would keep this call's frames
        if probed is not None or eager_rules.is_suspicious(func, args, kwargs):
            verdict = self._ask(func, args, kwargs)
            if verdict is Verdict.FINE:
                return
            if isinstance(verdict, Exception):
                raise verdict
        if error := eager_rules.error_by_rules(func, args, kwargs, self.room):
            raise RuntimeError(error)

    def _may_raise(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Exception | None:
        return self.asking(lambda: may_raise(func, args, kwargs))

    def _ask(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Exception | Verdict:
        return self.asking(lambda: ask_eager(func, args, kwargs, self.room))

    def asking(self, question: Callable[[], T]) -> T:
        """The answer; what runs for it is no call of the function's."""
        self.is_asking = True
        try:
            return question()
        finally:
            self.is_asking = False

    def run(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return func(*args, **kwargs)
        except NEEDS_DATA as error:
            what = f"{func} needs tensor data, which a recording has not"
            raise UnsupportedError(what, self.where(), refusals.OFF_DATA) from error
        except UnsupportedError:
            raise
        except Exception as error:
            if "data is not allocated yet" in str(error):
                what = f"{func} reads tensor data while it makes views"
                raise UnsupportedError(what, self.where(), refusals.OFF_DATA) from error
            raise self._eager_error(func, args, kwargs, error) from error

    def _eager_error(
        self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception
    ) -> Exception:
        if isinstance(error, UnsupportedOperatorException) or "register_fake" in str(error):
            what, fix = f"{func} has no fake implementation", "register a fake with torch.library.register_fake"
            return UnsupportedError(what, self.where(), fix)
        verdict = self._ask(func, args, kwargs)
        if verdict is Verdict.FINE:
            what = f"{func} runs in eager, but not on stand-ins: {type(error).__name__} {str(error)[:80]}"
            return UnsupportedError(what, self.where())
        return error if isinstance(verdict, Verdict) else verdict

    def _check_results(
        self, func: OpOverload, results: Sequence[torch.Tensor], written: Sequence[torch.Tensor]
    ) -> None:
        is_out = func._schema.overload_name.endswith("out")
        for t in results:
            if is_out and not any(t is w for w in written):  # some fakes answer an operand
                fix = "copy_ the result instead"
                raise UnsupportedError(f"{func} does not answer its destination on fakes", self.where(), fix)
            if t.layout != torch.strided:
                raise UnsupportedError(f"{func} makes a {t.layout} tensor", self.where(), "keep to dense tensors")
            if not isinstance(t, FakeTensor):
                is_shared = func is aten.lift_fresh.default  # from_numpy() is no torch function
                what = "from_numpy() shares memory with an array" if is_shared else f"{func} made a real tensor"
                raise UnsupportedError(what, self.where(), refusals.USE_TENSOR if is_shared else None)
            if t.dtype not in FROM_TORCH:
                raise UnsupportedError(f"{func} makes a tensor of {t.dtype}", self.where())
            if t.is_conj() or t.is_neg():
                fix = "use conj_physical() or resolve_conj()"
                raise UnsupportedError(f"{func} makes a tensor with a lazy conj or neg bit", self.where(), fix)
