"""The bridge between torch's element types and ours."""

import torch

from fusekit import dtypes
from fusekit.dtypes import DType

TO_TORCH: dict[DType, torch.dtype] = {
    dtypes.BOOL: torch.bool,
    dtypes.U8: torch.uint8,
    dtypes.U16: torch.uint16,
    dtypes.U32: torch.uint32,
    dtypes.U64: torch.uint64,
    dtypes.I8: torch.int8,
    dtypes.I16: torch.int16,
    dtypes.I32: torch.int32,
    dtypes.I64: torch.int64,
    dtypes.F16: torch.float16,
    dtypes.BF16: torch.bfloat16,
    dtypes.F32: torch.float32,
    dtypes.F64: torch.float64,
    dtypes.C32: torch.complex32,
    dtypes.C64: torch.complex64,
    dtypes.C128: torch.complex128,
    dtypes.F8_E4M3: torch.float8_e4m3fn,
    dtypes.F8_E5M2: torch.float8_e5m2,
}
FROM_TORCH: dict[torch.dtype, DType] = {theirs: ours for ours, theirs in TO_TORCH.items()}
