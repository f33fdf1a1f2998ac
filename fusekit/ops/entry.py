"""How one overload of the table is declared, and what a rule of it sees of a call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fusekit.dtypes import F32, DType
from fusekit.ir import Number, Operand
from fusekit.ops.promotion import SUPPORTED, Kind, number_kind, result_type
from fusekit.ops.text import REGISTER, cast, literal, parameter


class Refused(Exception):
    """Raised by a rule; ``plan`` turns it into a :class:`Refusal`."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call is not fused and runs as a library call."""

    reason: str


@dataclass(frozen=True, slots=True)
class Scalar:
    """What one element of the result is.

    ``body`` is a format string of Python over numpy scalars and the functions of ``functions()``: ``{0}`` is the
    register of operand 0 after its conversion to ``operands[0]``, ``{n0}`` the graph's parameter 0. The texts put in
    must be names, calls or parenthesised. The value is a register of ``result``. ``ulps`` bounds the distance from
    eager in units of the last place of the result dtype; 0 means equal bits (but for the payload of a NaN). A distance
    below ``absolute`` is allowed too: some of eager's vector functions are only that good near their zeros.
    """

    result: DType
    operands: tuple[DType, ...]
    body: str
    numbers: tuple[Number, ...] = ()
    ulps: int = 0
    absolute: float = 0.0


Rule = Callable[["Call"], tuple[DType, str]]


@dataclass(frozen=True, slots=True)
class Entry:
    """One functional overload. ``signature`` names its arguments as the schema does: ``self, other, *, alpha=1``."""

    signature: str
    rule: Rule
    ulps: int = 0
    absolute: float = 0.0


@dataclass(slots=True)
class Call:
    """A call bound to an entry's signature, and the conversions of its operands collected so far."""

    bound: dict[str, object]
    kinds: Sequence[Kind]
    default: DType
    wanted: dict[int, set[DType]] = field(default_factory=dict)
    numbers: dict[int, Number] = field(default_factory=dict)

    def kind(self, name: str) -> Kind | None:
        """What promotion sees of an argument; None for an argument that was left out."""
        value = self.bound[name]
        if isinstance(value, Operand):
            return self.kinds[value.position]
        if value is None:
            return None
        return number_kind(value.example if isinstance(value, Number) else value)

    def promoted(self, *names: str) -> DType:
        """The promoted dtype of the named arguments; refuses what kernels cannot hold."""
        found = result_type((kind for kind in map(self.kind, names) if kind is not None), self.default)
        if found not in SUPPORTED:
            raise Refused(f"no kernel computes in {found}")
        return found

    def value(self, name: str, dtype: DType) -> str:
        """The text of an argument as a register of ``dtype``."""
        value = self.bound[name]
        if isinstance(value, Operand):
            return self._operand(value.position, dtype)
        if isinstance(value, Number):
            self.numbers[value.index] = value
            return parameter(f"{{n{value.index}}}", value.example, dtype)
        if isinstance(value, complex) or not isinstance(value, (bool, int, float)):
            raise Refused(f"{name} is {value!r}")
        try:
            return literal(value, dtype)
        except ValueError as error:
            raise Refused(str(error)) from None

    def _operand(self, position: int, dtype: DType) -> str:
        own = self.kinds[position].dtype
        if own not in SUPPORTED:
            raise Refused(f"no kernel computes in {own}")
        wanted = self.wanted.setdefault(position, set())
        wanted.add(dtype)
        return f"{{{position}}}" if not self._split(position) else cast(f"{{{position}}}", own, dtype)

    def _split(self, position: int) -> bool:
        """Is the operand wanted in two dtypes? Then it is passed as it is and converted inside the body."""
        return len(self.wanted[position]) > 1

    def static(self, name: str) -> object:
        """An argument that steers the body, so that it cannot be a tensor or a parameter."""
        value = self.bound[name]
        if isinstance(value, (Operand, Number)):
            raise Refused(f"{name} must be known when the kernel is made")
        return value

    def operand_dtypes(self) -> tuple[DType, ...]:
        """The dtype that each operand is converted to before the body; its own for one that the body never reads."""
        return tuple(
            next(iter(self.wanted[k])) if len(self.wanted.get(k, ())) == 1 else kind.dtype or F32
            for k, kind in enumerate(self.kinds)
        )

    def is_split(self) -> bool:
        return any(len(dtypes) > 1 for dtypes in self.wanted.values())


def refuse_unless(dtype: DType, allowed: str) -> DType:
    """``allowed``: words among bool, int, float. Eager refuses the others too, so this is a guard only."""
    category = "int" if dtype.kind in ("int", "uint") else dtype.kind
    if dtype not in REGISTER or category not in allowed.split():
        raise Refused(f"no kernel of this op computes in {dtype}")
    return dtype


def floating(call: Call, *names: str) -> DType:
    """The computing dtype of a float op: integers and bools go to the default float dtype."""
    found = call.promoted(*names)
    return call.default if found.is_integral else found
