"""Bytes moved, bytes least, peak."""

import pytest
import torch

import fusekit as fk
from fusekit.ids import NodeId
from fusekit.ir import parse
from fusekit.lower.program import Snapshot
from fusekit.run.bytes import Moved, moved_by, traffic

TEXT = """graph f {
  @a : 400 bytes cpu argument
  @t : 400 bytes cpu fresh
  @o : 4 bytes cpu fresh
  %x : f32 (100):(1)+0 in @a input
  %low : f32 (60):(1)+0 in @a alias
  %high : f32 (60):(1)+40 in @a alias
  %wide : f32 (5,100):(0,1)+0 in @a alias
  %t : f32 (100):(1)+0 in @t new
  %o : f32 ():()+0 in @o new
  %low.in : f32 [60]
  %high.in : f32 [60]
  %wide.in : f32 [5,100]
  %v : f32 [100]
  ^in %x = fk.input()
  ^0 %low.in = fk.load(%low)
  ^1 %high.in = fk.load(%high)
  ^2 %wide.in = fk.load(%wide)
  ^3 %v = fk.window(%wide.in, index=[{0}, {i0}])
  ^4 = fk.store(%v, %t) writes 1
  ^5 = fk.store(%v, %x) writes 1
  ^6 %o = aten.sum.default(%t)
  ^out = fk.return(%o)
  segment $0 pointwise [100] { ^0 ^1 ^2 ^3 ^4 ^5 }
  segment $1 extern [] { ^6 }
}
"""


def test_each_byte_once_a_launch() -> None:
    graph = parse(TEXT)
    assert moved_by(graph, NodeId("$0")) == Moved(reads=400, writes=800)
    assert moved_by(graph, NodeId("$1")) == Moved(reads=400, writes=4)


def test_least_and_peak() -> None:
    found = traffic(parse(TEXT))
    assert (found.moved, found.least, found.peak) == (1604, 400 + 400 + 4, 404)


def test_what_was_written_first_is_not_read() -> None:
    text = TEXT.replace("^0 %low.in", "^00 = fk.store(%v0, %low) writes 1\n  ^0 %low.in")
    text = text.replace("%v : f32 [100]", "%v : f32 [100]\n  %v0 : f32 [60]").replace(
        "^in %x = fk.input()", "^in %x = fk.input()\n  ^f %v0 = fk.fill(value=1.0)"
    )
    assert traffic(parse(text)).least == 160 + 400 + 4


def centred(x: torch.Tensor) -> torch.Tensor:
    return x - x.mean(1, keepdim=True)


@pytest.mark.parametrize(("columns", "times"), [(70, 2), (32_768, 2), (32_769, 3), (200_000, 3)])
def test_a_core_has_a_short_row_still_and_reads_a_long_one_twice(columns: int, times: int) -> None:
    """The row and what is made of it, 256 KiB together, are the most that counts once."""
    s = fk.explore(centred, torch.ones(3, columns)).summary()
    assert s.kernels == 1
    assert (s.bytes_moved, s.bytes_least) == (times * 4 * 3 * columns, 2 * 4 * 3 * columns)


@pytest.mark.parametrize(("columns", "times"), [(1024, 2), (4096, 2), (1 << 20, 3)])
def test_a_gpu_has_what_is_in_registers(columns: int, times: int) -> None:
    s = fk.explore(centred, torch.ones(3, columns), options=fk.Options(backend="cuda")).summary()
    parts = 0 if times == 2 else 4096  # blocks that share a row hand their sums to one another
    assert 0 <= s.bytes_moved - times * 4 * 3 * columns <= parts


def test_a_whole_that_is_read_twice() -> None:
    """No loop is around both passes: all of the tensor must be near."""
    for rows, times in ((16, 2), (4096, 3)):
        s = fk.explore(lambda x: x / x.sum(), torch.ones(rows, 1024)).summary()
        assert (s.kernels, s.bytes_moved) == (1, times * 4 * rows * 1024)


def test_a_lookup_reads_what_it_looks_up() -> None:
    """Of a table as much as there are indices; of logits the row that is there anyway."""
    table, index = torch.ones(5000, 64), torch.zeros(40, dtype=torch.int64)
    s = fk.explore(torch.nn.functional.embedding, index, table).summary()
    assert s.bytes_moved == s.bytes_least == 40 * 8 + 2 * 40 * 64 * 4
    few = fk.explore(torch.nn.functional.embedding, index.repeat(1000), table[:10].clone()).summary()
    looks = 2  # so many indices are read from memory again, after all were found to be good
    assert few.bytes_moved == looks * 40_000 * 8 + (10 + 40_000) * 64 * 4


def test_only_what_is_loaded_counts() -> None:
    s = fk.explore(lambda x: x[:10] + 1, torch.ones(1000)).summary()
    assert (s.bytes_moved, s.bytes_least) == (80, 80)


def test_snapshots_count_in_bytes_and_in_the_peak() -> None:
    def shifted(x: torch.Tensor) -> None:
        x[2:5000].copy_(x[:4998] * 2 + x[2:5000].flip(0))

    x = fk.explore(shifted, torch.ones(5000))
    s = x.summary()
    kept = sum(st.last - st.first for st in x.kernels[0].program.body if isinstance(st, Snapshot))
    assert s.copies == 1 and kept > 0
    assert s.peak_bytes == kept and s.bytes_moved >= s.bytes_least + 2 * kept


def test_a_load_of_two_tensors_counts_for_both() -> None:
    def halves(p: torch.Tensor, q: torch.Tensor) -> None:
        p.mul_(2).add_(q.flip(0))
        q.sub_(1)

    a = torch.ones(8, 6)
    x = fk.explore(halves, a[:6], a[2:])
    s, loads = x.summary(), {op for op in x.graph.ops() if x.graph.op(op).target == "fk.load"}
    assert s.kernels == 1 and s.bytes_moved == s.bytes_least == 2 * a.nbytes
    assert loads <= {op for _, ops in x.kernels[0].lines for op in ops}
