"""Bytes moved, bytes least, peak."""

import torch

from fusekit.ids import NodeId
from fusekit.ir import parse
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


def test_a_row_that_is_read_in_two_loops_counts_twice() -> None:
    import fusekit as fk

    s = fk.explore(lambda x: x - x.mean(1, keepdim=True), torch.ones(30, 70)).summary()
    assert s.kernels == 1
    assert (s.bytes_moved, s.bytes_least) == (3 * 4 * 2100, 2 * 4 * 2100)
