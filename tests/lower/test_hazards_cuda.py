"""Remedies of CUDA's kernels: whatever the order of the blocks, loads see memory as it was before the launch."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable, Iterable

import numpy as np
import pytest
import torch

from fusekit.index import Form
from fusekit.ir import Graph
from fusekit.lower import lower_segment
from fusekit.run.cuda.kernel import CudaKernel, as_cuda, copied
from fusekit.run.cuda.simulate import simulate
from fusekit.run.interpret import interpret
from fusekit.schedule import parse_schedule
from tests.lower.sketch import Sketch, at, buffers, stores

BLOCKS = "merge(0).split(0, 8).parallelize(BIDx, TIDx)"
VECTORS = "merge(0).split(0, 4).split(0, 8).parallelize(BIDx, TIDx, VECTORIZE)"
ROWS = "split(1, 16).reorder(0, 1, 2).parallelize(BIDx, SERIAL, TIDx)"
Order = Callable[[list[tuple[int, int, int]]], Iterable[tuple[int, int, int]]]
ORDERS: tuple[Order, ...] = (list, reversed, lambda places: random.Random(3).sample(places, len(places)))


def run(kernel: CudaKernel, graph: Graph, memory: list[torch.Tensor], order: Order) -> None:
    """One launch on bytes, copies in front of it included; scratch memory holds rubbish."""
    blocks = graph.blocks()
    args = [memory[blocks.index(p.node)].data_ptr() for p in kernel.params if p.node is not None]
    keep = [np.full(1 << 14, 255, np.uint8) for _ in (*copied(kernel), 0, 0)]
    keep[-1][:] = 0
    starts = [-(-room.ctypes.data // 16) * 16 for room in keep]
    more = []
    for one, start in zip(copied(kernel), starts, strict=False):
        ctypes.memmove(start + one.first % 16, args[one.source] + one.first, one.size)
        more.append(start + one.first % 16 - one.first)
    if len(kernel.kinds) > len(args) + len(more):
        more += starts[-2:]
    grid, block = kernel.launch
    aligned = all(a % 16 == 0 for a in args)
    simulate(kernel.source if aligned else kernel.scalar_source, kernel.name, grid, block, (*args, *more), order)
    assert not keep[-1].any(), "counters are left at 0"


def check(graph: Graph, schedule: str) -> CudaKernel:
    before = buffers(graph)
    expected = [b.clone() for b in before]
    interpret(graph, expected, ())
    kernel = as_cuda(lower_segment(graph, stores(graph), schedule=parse_schedule(schedule), target="cuda"), graph)
    for order in ORDERS:
        memory = [b.clone() for b in before]
        run(kernel, graph, memory, order)
        for found, wanted in zip(memory, expected, strict=True):
            assert torch.equal(found, wanted), kernel.source
    return kernel


def remedies(kernel: CudaKernel) -> set[str]:
    return {race.remedy for race in kernel.races} - {"none needed"}


def mirrored(n: int) -> Graph:
    s = Sketch()
    place = s.fresh((n,), name="x")
    s.store(s.add(s.window(s.load(place), (n,), -at(n)[0] + (n - 1)), 1), place)
    return s.finish()


def with_element(shape: tuple[int, ...], k: int) -> Graph:
    """x += x[k], flat."""
    s = Sketch()
    block = s.block(4 * int(np.prod(shape)))
    x, element = s.place(block, shape, name="x"), s.place(block, (), (), k, name="element")
    s.store(s.add(s.load(x), s.load(element)), x)
    return s.finish()


def with_neighbour(rows: int, columns: int) -> Graph:
    """x[:, 1:] += x[:, :-1]"""
    s = Sketch()
    block = s.block(4 * rows * columns)
    left = s.place(block, (rows, columns - 1), (columns, 1), name="left")
    right = s.place(block, (rows, columns - 1), (columns, 1), 1, name="right")
    s.store(s.add(s.load(right), s.load(left)), right)
    return s.finish()


@pytest.mark.parametrize("n", [8, 5])
def test_one_block_waits_for_itself(n: int) -> None:
    kernel = check(mirrored(n), "split(0, 8).parallelize(BIDx, TIDx)")
    assert (kernel.copies, remedies(kernel)) == (0, {"block barrier"})
    assert kernel.source.count("sync_threads()") == 1


@pytest.mark.parametrize("n", [16, 21, 33])
def test_flips_across_blocks_pair(n: int) -> None:
    kernel = check(mirrored(n), "split(0, 8).parallelize(BIDx, TIDx)")
    assert (kernel.copies, remedies(kernel)) == (0, {"pairing of orbits"})


def test_a_transpose_in_place_pairs() -> None:
    s, n = Sketch(), 13
    place = s.fresh((n, n), name="x")
    i, j = at(n, n)
    s.store(s.add(s.load(place), s.window(s.load(place), (n, n), j, i)), place)
    kernel = check(s.finish(), "split(0, 4).split(2, 4).reorder(0, 2, 1, 3).merge(2).parallelize(BIDx, BIDy, TIDx)")
    assert (kernel.copies, remedies(kernel)) == (0, {"pairing of orbits"})


@pytest.mark.parametrize("schedule", [BLOCKS, VECTORS])
@pytest.mark.parametrize(("shape", "k"), [((6, 8), 0), ((6, 8), 17), ((5, 12), 59)])
def test_an_element_of_all_blocks_is_stored_by_the_last(shape: tuple[int, int], k: int, schedule: str) -> None:
    kernel = check(with_element(shape, k), schedule)
    assert (kernel.copies, remedies(kernel)) == (0, {"store left to the last block"})
    assert "last_block(counters, shared_memory(4), " in kernel.source
    if schedule == VECTORS:
        assert "store_f32x4(m0, " in kernel.source, "vectors stay vectors"


def test_two_elements_wait_apart() -> None:
    s, n = Sketch(), 64
    block = s.block(4 * n)
    x, a, b = s.place(block, (n,)), s.place(block, (), (), 3, name="p"), s.place(block, (), (), 50, name="q")
    s.store(s.add(s.add(s.load(x), s.load(a)), s.load(b)), x)
    kernel = check(s.finish(), "split(0, 8).parallelize(BIDx, TIDx)")
    assert (kernel.copies, remedies(kernel)) == (0, {"store left to the last block"})
    assert kernel.source.count("_later") > 4


def test_a_row_of_all_rows_is_stored_by_the_last() -> None:
    s, shape = Sketch(), (7, 12)
    place = s.fresh(shape, name="x")
    row = s.window(s.load(place), shape, 2, at(*shape)[1])
    s.store(s.add(s.load(place), row), place)
    kernel = check(s.finish(), BLOCKS)
    assert (kernel.copies, remedies(kernel)) == (0, {"store left to the last block"})


def test_more_than_a_block_moves_at_once_is_a_snapshot() -> None:
    s, shape = Sketch(), (3, 100)
    place = s.fresh(shape, name="x")
    row = s.window(s.load(place), shape, 2, at(*shape)[1])
    s.store(s.add(s.load(place), row), place)
    kernel = check(s.finish(), BLOCKS)
    assert (kernel.copies, remedies(kernel)) == (1, {"snapshot"})
    (snapshot,) = kernel.snapshots
    assert (snapshot.first, snapshot.last) == (800, 1200)
    said = {one.remedy: one.why for race in kernel.races for one in race.considered}
    assert said["store left to the last block"] == "100 elements are more than one block moves at once"
    assert said["block barrier"] == "iterations of several blocks meet"


@pytest.mark.parametrize("columns", [17, 12])
def test_a_shift_inside_a_row_waits_once_a_row(columns: int) -> None:
    """Rows of a block each: threads wait between their loads and their stores."""
    schedule = f"split(1, {columns}).parallelize(BIDx, SERIAL, TIDx)"
    kernel = check(with_neighbour(5, columns), schedule)
    assert (kernel.copies, remedies(kernel)) == (0, {"block barrier"})


def test_a_shift_inside_a_loop_that_stores_as_it_goes_is_a_snapshot() -> None:
    """Two passes of a row: the second pass reads what the first has stored."""
    kernel = check(with_neighbour(3, 33), ROWS)
    assert kernel.copies == 1


def test_a_shift_across_blocks_is_a_snapshot() -> None:
    s, n = Sketch(), 100
    block = s.block(4 * n)
    left, right = s.place(block, (n - 3,), name="left"), s.place(block, (n - 3,), offset=3, name="right")
    s.store(s.add(s.load(right), s.load(left)), right)
    kernel = check(s.finish(), "split(0, 8).parallelize(BIDx, TIDx)")
    assert (kernel.copies, remedies(kernel)) == (1, {"snapshot"})


def test_without_the_remedy_the_result_is_wrong() -> None:
    """The simulator sees these races: the same kernels without barrier, deferral or pairing give other bytes."""
    graph = with_element((6, 8), 0)
    kernel = check(graph, BLOCKS)
    before = buffers(graph)
    expected = [b.clone() for b in before]
    interpret(graph, expected, ())
    broken = kernel.source.replace("m0_later = partials", "m0_later = m0 + 0 * partials")
    assert broken != kernel.source
    (x,) = memory = [b.clone() for b in before]
    keep = np.zeros(64, np.uint8)
    simulate(broken, kernel.name, *kernel.launch, (x.data_ptr(), keep.ctypes.data, keep.ctypes.data + 32))
    assert not torch.equal(memory[0], expected[0])


# ---- random programs ------------------------------------------------------------------------------------------------

SCHEDULES = (
    "merge(0).split(0, 8).parallelize(BIDx, TIDx)",
    "merge(0).split(0, 4).split(0, 4).parallelize(BIDx, TIDx, VECTORIZE)",
    "merge(0).split(0, 2).split(0, 4).parallelize(BIDx, TIDx, UNROLL)",
    "merge(0).split(0, 64).parallelize(BIDx, TIDx)",
    "split(1, 8).parallelize(BIDx, SERIAL, TIDx)",
    "parallelize(BIDx, TIDx)",
    "parallelize(TIDx, BIDx)",
    "parallelize(BIDx, SERIAL)",
)


def random_program(rng: random.Random) -> Graph:
    """One or two stores over one block, of sums of reads through maps: flips, transposes, shifts, rows, elements."""
    n = rng.choice((2, 3, 4, 6, 8))
    shape = (n, n) if rng.random() < 0.4 else (n, rng.choice((1, 3, 4, 8, 9)))
    s = Sketch()
    block = s.block(4 * (n * shape[1] + 8))
    x = s.place(block, shape, offset=rng.choice((0, 0, 4, 3)), name="x")
    i, j = at(*shape)
    rows, columns = Form.of(shape[0] - 1), Form.of(shape[1] - 1)
    maps = [
        (rows - i, j), (i, columns - j), (rows - i, columns - j), (Form.of(rng.randrange(shape[0])), j),
        (i, Form.of(rng.randrange(shape[1]))), (Form.of(rng.randrange(shape[0])), Form.of(rng.randrange(shape[1]))),
        ((i + 1) % shape[0], j), (i, (j + shape[1] // 2) % shape[1]), (i, j),
    ]  # fmt: skip
    if shape[0] == shape[1]:
        maps += [(j, i), (j, i), (rows - j, i), (rows - j, columns - i)]
    whole = s.load(x)
    value = s.window(whole, shape, *rng.choice(maps))
    for _ in range(rng.randint(0, 2)):
        value = s.add(value, s.window(whole, shape, *rng.choice(maps)))
    if rng.random() < 0.3:  # another view of the same bytes, a few elements on
        value = s.add(value, s.load(s.place(block, shape, offset=rng.randint(0, 8), name="shifted")))
    s.store(value, x)
    if rng.random() < 0.4:
        s.store(s.add(s.window(whole, shape, *rng.choice(maps)), 1), s.fresh(shape, name="y"))
    return s.finish()


@pytest.mark.parametrize("seed", range(24))
def test_random_programs_in_any_order_of_blocks(seed: int) -> None:
    rng = random.Random(seed)
    seen: set[str] = set()
    for _ in range(4):
        seen |= remedies(check(random_program(rng), rng.choice(SCHEDULES)))
    assert seen <= {"block barrier", "pairing of orbits", "store left to the last block", "snapshot",
                    "read before the inner loop", "read before the loop"}  # fmt: skip
