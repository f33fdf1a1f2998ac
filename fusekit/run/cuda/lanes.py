"""A scalar function over the lanes of vectors: typed and lowered once, whatever the width (Numba's time goes there)."""

from __future__ import annotations

from typing import Any

from fusekit.run.cuda.arithmetic import is_tuple, lanes_of, scalar_type
from fusekit.run.cuda.numba_api import cgutils, intrinsic, types


@intrinsic
def each_lane(context: Any, element: Any, operands: Any) -> Any:
    """``element(a[k], b[k], ...)`` for every lane k of ``operands``, a tuple of vectors and of scalars, which repeat.

    Where ``element`` gives several values, so many vectors result.
    """
    kinds = operands.types if hasattr(operands, "types") else (operands.dtype,) * operands.count
    width = max(kind.count for kind in kinds if is_tuple(kind))
    one = element.get_call_type(context, tuple(map(scalar_type, kinds)), {})
    results = tuple(one.return_type) if isinstance(one.return_type, types.BaseTuple) else (one.return_type,)

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        function = context.get_function(element, one)
        vectors = [lanes_of(builder, kind, builder.extract_value(args[1], j)) for j, kind in enumerate(kinds)]
        out: list[list[Any]] = [[] for _ in results]
        for k in range(width):
            lane = [
                context.cast(builder, vector[k if len(vector) > 1 else 0], scalar_type(kind), taken)
                for vector, kind, taken in zip(vectors, kinds, one.args, strict=True)
            ]
            value = function(builder, lane)
            for j, made in enumerate(out):
                made.append(value if len(results) == 1 else builder.extract_value(value, j))
        packed = [cgutils.pack_array(builder, lanes) for lanes in out]
        if len(packed) == 1:
            return packed[0]
        alike = len({vector.type for vector in packed}) == 1
        return cgutils.pack_array(builder, packed) if alike else cgutils.pack_struct(builder, packed)

    each = tuple(types.UniTuple(types.unliteral(result), width) for result in results)
    if len(each) == 1:
        return each[0](element, operands), build
    whole = types.Tuple(each) if len(set(each)) > 1 else types.UniTuple(each[0], len(each))
    return whole(element, operands), build
