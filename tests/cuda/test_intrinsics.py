"""Every intrinsic compiles for each compute capability, assembles, and has a stand-in that agrees with numpy."""

import ctypes
import inspect
import re
from collections.abc import Iterable

import numpy as np
import pytest
import torch

from fusekit import ops
from fusekit.run.cuda import assemble, compile_ptx
from fusekit.run.cuda.kinds import HALVES, WIDTHS, lane_counts
from fusekit.run.cuda.standins import NAMES

CAPABILITIES = ((8, 0), (9, 0))
FLOATS = ("f32", "f64")
EXCHANGED = ("f32", "f64", "i32", "i64")
LIFTED = {"add_rn": 2, "mul_rn": 2, "sqrt_rn": 1, "fma": 3}
TABLE = ("exp", "log", "tanh", "erf")
ORDER = ("maximum", "minimum", "clamp_min", "clamp_max", "fmax", "fmin")
APPROXIMATE = ("exp2_approx", "rcp_approx")


def kernel(lines: Iterable[str], threads: int = 64) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"def kernel(x, y, n):\n    i = block_x() * {threads} + thread_x()\n{body}"


def memory_lines(name: str) -> list[str]:
    lines = []
    for count in (1, *lane_counts(name)):
        tail = f"{name}x{count}" if count > 1 else name
        lines += [f"store_{tail}(y, i * {count}, load_{tail}(x, i * {count}))"]
        lines += [f"store_shared_{tail}(s, thread_x() * {count}, load_shared_{tail}(s, n * {count}))"]
    return ["s = shared_memory(4096)", *lines]


def guarded_lines(name: str) -> list[str]:
    """Accesses of which some lanes are left out, or whose words are not unpacked."""
    lines = ["s = shared_memory(4096)"]
    for count in (1, *lane_counts(name)):
        tail, some = f"{name}x{count}" if count > 1 else name, f"load_boolx{count}(x, i * {count})"
        lines += [f"v = load_{tail}(x, n)"]
        if name == "bf16":
            lines += [f"store_exact_{tail}(y, i * {count}, v)", f"store_shared_exact_{tail}(s, 0, v)"]
        if count > 1:
            words = ("", "exact_") if name == "bf16" else ("",)
            lines += [f"store_masked_{word}{tail}(y, i * {count}, v, {some})" for word in words]
            lines += [f"store_{tail}(y, i * {count}, load_within_{tail}(x, n, i, n))"]
        if count > 1 and name in HALVES:
            lines += [f"store_{tail}(y, i, unpack_lanes_{name}(load_packed_{tail}(x, i)))"]
    return lines


def float_lines(name: str) -> list[str]:
    load, pair = f"load_{name}(x, i)", f"load_{name}x2(x, i * 2)"
    lines = []
    for word, operands in (*LIFTED.items(), ("max_nan", 2), ("min_nan", 2)):
        lines += [f"store_{name}(y, i, {word}({', '.join([load] * operands)}))"]
        lines += [f"store_{name}x2(y, i * 2, {word}({', '.join([pair, load, pair][:operands])}))"]
    lines += [f"store_{name}(y, i, {word}_lanes({pair}))" for word in ("sum", "prod", "max", "min")]
    return lines


def order_lines(name: str) -> list[str]:
    return [f"store_{name}(y, i, {word}(load_{name}(x, i), load_{name}(x, n)))" for word in ORDER]


def exchange_lines(name: str) -> list[str]:
    load, pair = f"load_{name}(x, i)", f"load_{name}x2(x, i * 2)"
    lines = [f"store_{name}(y, i, shuffle_xor({load}, 3))"]
    for word in ("sum", "prod", "max", "min"):
        lines += [f"store_{name}(y, i, warp_{word}({load}, 8))", f"store_{name}(y, i, block_{word}({load}, s, 64))"]
        lines += [f"store_{name}x2(y, i * 2, block_{word}({pair}, s, 64))", "sync_threads()"]
    return ["s = shared_memory(1024)", *lines]


def other_lines() -> list[str]:
    places = [f"{word}_{axis}()" for word in ("thread", "block", "grid") for axis in "xyz"]
    lines = [f"store_i64(y, i, {' + '.join(places)} + div_u32(n, i) + mod_u32(n, i))"]
    lines += [f"store_f32(y, i, {word}(load_f32(x, i)))" for word in (*APPROXIMATE, "to_bf16", "to_f16")]
    lines += [f"store_f32(y, i, {word}_f32(load_f32(x, i)))" for word in TABLE]
    lines += [f"store_f32x{n}(y, i * {n}, repeat_lanes(load_f32(x, i), {n}))" for n in (2, 4)]
    for name in HALVES:
        for again in ("", "_again"):
            unpacked = f"unpack_lanes_{name}{again}(load_i32x4(x, i * 4))"
            lines += [f"store_i32x4(y, i * 4, pack_lanes_{name}({unpacked}))"]
    lines += ["s = shared_memory(4)"]
    lines += ["sync_grid(x, n)", "if last_block(x, s, n):", "    store_i64(y, i, n)"]
    return [*lines, "if n < 0:", "    stop()"]


TEXTS = {f"memory-{name}": kernel(memory_lines(name)) for name in WIDTHS}
TEXTS |= {f"guarded-{name}": kernel(guarded_lines(name)) for name in WIDTHS}
TEXTS |= {f"float-{name}": kernel(float_lines(name)) for name in FLOATS}
TEXTS |= {f"exchange-{name}": kernel(exchange_lines(name)) for name in EXCHANGED}
TEXTS |= {f"order-{name}": kernel(order_lines(name)) for name in WIDTHS if name not in (*HALVES, "bool")}
TEXTS["other"] = kernel(other_lines())
TEXTS["trig"] = kernel([f"store_f32(y, i, {word}_f32(load_f32(x, i)))" for word in ("sin", "cos")])


@pytest.mark.parametrize("cc", CAPABILITIES, ids=("sm_80", "sm_90"))
@pytest.mark.parametrize("text", TEXTS)
def test_every_intrinsic_compiles_and_assembles(text: str, cc: tuple[int, int]):
    made = assemble(compile_ptx(TEXTS[text], "kernel", ("address", "address", "int"), cc, threads=64))
    assert made.uses_local == (text == "trig")  # libdevice's keep an array for arguments that are large
    if text.startswith("memory"):  # the widest vector is read and written in one access each
        assert (made.accesses["ld", "global", 16], made.accesses["st", "global", 16]) == (1, 1)


def test_zeros_are_ordered_as_eager_orders_them_on_a_gpu():
    """max.f32 takes -0 for less than 0. NaN is chosen by itself, which keeps its bits."""
    for name in FLOATS:
        made = compile_ptx(TEXTS[f"order-{name}"], "kernel", ("address", "address", "int"), (9, 0), threads=64).text
        assert (made.count(f"max.{name}"), made.count(f"min.{name}")) == (3, 3) and "NaN" not in made


@pytest.mark.parametrize("word", ["warp_sum(load_f32(x, i), {})", "block_sum(load_f32(x, i), s, {})"])
def test_reductions_of_several_widths_in_one_kernel_keep_their_own(word: str):
    lines = ["s = shared_memory(256)", *(f"store_f32(y, {n}, {word.format(n)})" for n in (8, 4, 16))]
    made = compile_ptx(kernel(lines), "kernel", ("address", "address", "int"), (9, 0), threads=64)
    assert made.text.count("shfl.sync") == 3 + 2 + 4


def test_the_texts_above_name_every_intrinsic():
    from fusekit.run.cuda import intrinsics

    assert NAMES.keys() == intrinsics.NAMES.keys()
    whole = "\n".join(TEXTS.values())
    assert {name for name in NAMES if f"{name}(" not in whole} == {"each_lane"}


@pytest.mark.parametrize("name", ["f32", pytest.param("f64", marks=pytest.mark.slow)])
def test_functions_of_the_op_table_compile(name: str):
    """Every function of floats, in one kernel."""
    lines = []
    for word, function in ops.functions().items():
        is_narrow = word.endswith("_f32") or "f16" in word
        if word in ("power_of_two", "shift_left", "shift_right") or (name == "f64" and is_narrow):
            continue
        count = len(inspect.signature(function).parameters)
        arguments = ", ".join(f"load_{name}(x, {k} + i)" for k in range(count))
        lines += [f"r{len(lines)} = {word}({arguments})"]
    compile_ptx(kernel(lines), "kernel", ("address", "address", "int"), (9, 0), threads=64)


# ---- stand-ins -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in WIDTHS if name not in HALVES])
def test_stand_ins_read_and_write_what_numpy_does(name: str):
    kind = np.dtype({"b": "bool"}.get(name[0], f"{name[0]}{WIDTHS[name]}"))
    count = lane_counts(name)[-1]
    memory = (ctypes.c_uint8 * 128)(*range(7, 135))
    start = -(-ctypes.addressof(memory) // 16) * 16
    view = np.frombuffer(memoryview((ctypes.c_uint8 * 96).from_address(start)), kind)
    wanted = view[count : 2 * count].copy()
    lanes = NAMES[f"load_{name}x{count}"](start, count)
    assert np.array_equal(np.array(lanes, kind), wanted.astype(kind))
    NAMES[f"store_{name}x{count}"](start, 0, lanes)
    assert np.array_equal(view[:count], wanted)
    mask = tuple(k > 0 for k in range(count))
    NAMES[f"store_masked_{name}x{count}"](start, 2 * count, lanes, mask)
    assert np.array_equal(view[2 * count + 1 : 3 * count], wanted[1:])


@pytest.mark.parametrize(("name", "dtype"), [("bf16", torch.bfloat16), ("f16", torch.float16)])
def test_stand_ins_of_halves_round_as_torch(name: str, dtype: torch.dtype):
    values = torch.tensor([1.0, -0.1, 3e-6, 65519.0, 65520.0, float("inf"), -0.0, 1e-8])
    wanted = values.to(dtype)
    stored = torch.zeros(16, dtype=dtype)
    skip = -stored.data_ptr() % 16 // 2
    lanes = tuple(values.numpy())
    NAMES[f"store_{name}x8"](stored.data_ptr() + 2 * skip, 0, lanes)
    assert torch.equal(stored[skip : skip + 8], wanted)
    read = NAMES[f"load_{name}x8"](stored.data_ptr() + 2 * skip, 0)
    assert np.array_equal(np.array(read), wanted.float().numpy())
    rounded = NAMES[f"to_{name}"](lanes)
    assert np.array_equal(np.array(rounded), wanted.float().numpy())
    packed = NAMES[f"pack_lanes_{name}"](lanes)
    assert NAMES[f"unpack_lanes_{name}"](packed) == rounded


def test_stand_ins_of_arithmetic():
    a, b, nan = np.float32(0.1), np.float32(3), np.float32(np.nan)
    assert NAMES["add_rn"]((a, b), a) == (a + a, b + a)
    assert NAMES["fma"](a, b, -(a * b)) != 0  # one rounding, which the product alone has already
    assert np.isnan(NAMES["max_nan"](nan, b)) and np.isnan(NAMES["min_nan"](b, nan))
    assert NAMES["sum_lanes"]((a, b, a)) == (a + b) + a
    assert NAMES["each_lane"](lambda x, y: (x + y, x), ((a, b), a)) == ((a + a, b + a), (a, b))


def test_two_shared_arrays_have_their_own_sizes():
    source = """
def f(x):
    a, b = shared_memory(4096), shared_memory(64)
    store_shared_f32(a, thread_x(), load_f32(x, thread_x()))
    store_shared_f32(b, 0, np.float32(1))
    sync_threads()
    store_f32(x, thread_x(), load_shared_f32(a, 1023 - thread_x()) + load_shared_f32(b, 0))
"""
    text = compile_ptx(source, "f", ("address",), (9, 0), threads=1024).text
    assert sorted(map(int, re.findall(r"\.shared \.align 16 \.b8 \S+\[(\d+)\]", text))) == [64, 4096]
