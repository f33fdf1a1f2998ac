"""Hand-written kernels in the language of fusekit's CUDA printer: what the runtime's tests and benchmark run."""

from __future__ import annotations

from dataclasses import dataclass

from fusekit.run.cuda import Ptx, compile_ptx


@dataclass(frozen=True)
class Sample:
    """``source`` of one kernel; ``kinds`` of its parameters; ``threads`` of a block."""

    name: str
    source: str
    kinds: tuple[str, ...]
    threads: int

    def ptx(self, cc: tuple[int, int] = (9, 0)) -> Ptx:
        return compile_ptx(self.source, self.name, self.kinds, cc, threads=self.threads)


def axpy(dtype: str, threads: int = 256) -> Sample:
    """y = alpha * x + y, rounded after each op as eager does; 16 bytes a thread, the tail element by element."""
    lanes = 4 if dtype == "f32" else 8
    rounded = "{}" if dtype == "f32" else "to_bf16({})"
    source = f"""
from fusekit.run.cuda.intrinsics import block_x, each_lane, load_{dtype}, store_{dtype}, thread_x


def element(x, y, alpha):
    return {rounded.format(f"{rounded.format('alpha * x')} + y")}


def axpy_{dtype}(x, y, alpha, n):
    a = np.float32(alpha)
    i = (block_x() * {threads} + thread_x()) * {lanes}
    if i + {lanes} <= n:
        xs = load_{dtype}x{lanes}(x, i)
        ys = load_{dtype}x{lanes}(y, i)
        store_{dtype}x{lanes}(y, i, each_lane(element, (xs, ys, a)))
    else:
        for k in range(i, n):
            store_{dtype}(y, k, element(load_{dtype}(x, k), load_{dtype}(y, k), a))
"""
    return Sample(f"axpy_{dtype}", source, ("address", "address", "float", "int"), threads)


def row_sum(dtype: str, threads: int = 256) -> Sample:
    """out[row] = sum of a row of ``columns`` elements, a multiple of the vector; one block a row."""
    lanes = 4 if dtype == "f32" else 8
    source = f"""
from fusekit.run.cuda.intrinsics import add_rn, block_sum, block_x, load_{dtype}x{lanes}, shared_memory, sum_lanes


def row_sum_{dtype}(x, out, columns):
    row, t = block_x(), thread_x()
    scratch = shared_memory(256)
    total = np.float32(0)
    for i in range(t * {lanes}, columns, {threads * lanes}):
        total = total + sum_lanes(load_{dtype}x{lanes}(x, row * columns + i))
    total = block_sum(total, scratch, {threads})
    if t == 0:
        store_f32(out, row, total)
"""
    return Sample(f"row_sum_{dtype}", source, ("address", "address", "int"), threads)


def column_sum(across: int = 32, down: int = 8) -> Sample:
    """out[column]: a block takes 4 * ``across`` columns of some rows, the last one of a strip finishes."""
    source = f"""
from fusekit.run.cuda.intrinsics import add_rn, block_x, block_y, last_block, load_f32x4, shared_memory, store_f32x4


def column_sum(x, out, partials, counters, rows, columns, rows_per_block):
    t, u = thread_x(), thread_y()
    tile = shared_memory({16 * across * down})
    flag = shared_memory(4)
    column = (block_x() * {across} + t) * 4
    first = block_y() * rows_per_block
    zero = np.float32(0)
    total = (zero, zero, zero, zero)
    for row in range(first + u, min(first + rows_per_block, rows), {down}):
        total = add_rn(total, load_f32x4(x, row * columns + column))
    store_shared_f32x4(tile, (u * {across} + t) * 4, total)
    sync_threads()
    if u == 0:
        for k in range(1, {down}):
            total = add_rn(total, load_shared_f32x4(tile, (k * {across} + t) * 4))
        store_f32x4(partials, block_y() * columns + column, total)
    if last_block(counters + block_x() * 4, flag, grid_y()) and u == 0:
        total = (zero, zero, zero, zero)
        for k in range(grid_y()):
            total = add_rn(total, load_f32x4(partials, k * columns + column))
        store_f32x4(out, column, total)
"""
    kinds = ("address", "address", "address", "address", "int", "int", "int")
    return Sample("column_sum", source, kinds, across * down)


def softmax(dtype: str, columns: int, threads: int) -> Sample:
    """Rows of ``columns`` elements, held in registers from the one read to the one write."""
    lanes = 4 if dtype == "f32" else 8
    steps = [f"x{k}" for k in range(columns // (threads * lanes))]
    at = [f"base + {k * threads * lanes}" for k in range(len(steps))]
    loads = "\n".join(f"    {x} = load_{dtype}x{lanes}(x, {i})" for x, i in zip(steps, at, strict=True))
    most = "\n".join(f"    most = max_nan(most, max_lanes({x}))" for x in steps)
    raised = "\n".join(f"    {x} = each_lane(raised, ({x}, most))\n    total += sum_lanes({x})" for x in steps)
    stores = "\n".join(
        f"    store_{dtype}x{lanes}(out, {i}, mul_rn({x}, share))" for x, i in zip(steps, at, strict=True)
    )
    source = f"""
from fusekit.run.cuda.intrinsics import block_max, block_sum, block_x, exp2_approx, max_lanes, mul_rn, rcp_approx


def raised(x, most):
    return exp2_approx((x - most) * np.float32(1.44269504))


def softmax_{dtype}(x, out):
    t = thread_x()
    base = block_x() * {columns} + t * {lanes}
    scratch = shared_memory(512)
{loads}
    most = max_lanes(x0)
{most}
    most = block_max(most, scratch, {threads})
    total = np.float32(0)
{raised}
    share = rcp_approx(block_sum(total, scratch + 256, {threads}))
{stores}
"""
    return Sample(f"softmax_{dtype}", source, ("address", "address"), threads)


SAMPLES = (
    axpy("f32"),
    axpy("bf16"),
    row_sum("f32"),
    row_sum("bf16"),
    column_sum(),
    softmax("f32", 4096, 256),
    softmax("bf16", 4096, 256),
)
