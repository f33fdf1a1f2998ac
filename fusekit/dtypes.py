"""Element types, without torch: a short name, a width in bytes and a category."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DType:
    """``kind`` is one of bool, uint, int, float, complex; ``width`` is in bytes."""

    name: str
    width: int
    kind: str

    @property
    def is_floating(self) -> bool:
        return self.kind == "float"

    @property
    def is_complex(self) -> bool:
        return self.kind == "complex"

    @property
    def is_integral(self) -> bool:
        """Integers and bool."""
        return self.kind in ("bool", "uint", "int")

    def __repr__(self) -> str:
        return self.name


BOOL = DType("bool", 1, "bool")
U8, U16, U32, U64 = (DType(f"u{8 * n}", n, "uint") for n in (1, 2, 4, 8))
I8, I16, I32, I64 = (DType(f"i{8 * n}", n, "int") for n in (1, 2, 4, 8))
F16, F32, F64 = (DType(f"f{8 * n}", n, "float") for n in (2, 4, 8))
BF16 = DType("bf16", 2, "float")
C32, C64, C128 = (DType(f"c{8 * n}", n, "complex") for n in (4, 8, 16))
F8_E4M3, F8_E5M2 = DType("f8e4m3", 1, "float"), DType("f8e5m2", 1, "float")

ALL = (BOOL, U8, U16, U32, U64, I8, I16, I32, I64, F16, BF16, F32, F64, C32, C64, C128, F8_E4M3, F8_E5M2)
BY_NAME = {dtype.name: dtype for dtype in ALL}
