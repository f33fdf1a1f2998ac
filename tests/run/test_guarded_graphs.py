"""Graphs of users touch no byte outside of the program's memory: what breaks a rule is refused, the rest is right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import fusekit as fk
from fusekit.errors import InvalidGraph
from fusekit.ir import Graph, PassResult, print_graph

ROOT = Path(__file__).parents[2]
COUNT = 60
GOOD = ("refused", "equal", "same", "eager", "unclear")  # "unclear": torch refuses the very graph that was brought


@pytest.mark.skipif(sys.platform != "linux", reason="asks the system for pages that nobody may touch")
def test_changed_graphs_stay_between_their_fences(tmp_path: Path) -> None:
    """In a process of its own: what is looked for ends it."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.run.guarded_graphs", "0", str(COUNT)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={"FUSEKIT_CACHE": str(tmp_path), "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
    )
    lines = [line.split(" ", 2) for line in done.stdout.splitlines() if not line.endswith(" begins")]
    assert done.returncode == 0 and len(lines) == COUNT, (done.returncode, done.stdout[-300:], done.stderr[-2000:])
    bad = [line for line in lines if line[1] not in GOOD]
    assert not bad, bad
    assert sum(line[1] == "equal" for line in lines) >= COUNT // 6
    assert sum(line[1] == "refused" for line in lines) >= COUNT // 4


def looked_up(weight: torch.Tensor, at: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    out[:, 1:3].mul_(2)
    a = weight[at] + 1
    return a.sum(0).sin() @ weight.T


def brought(step: str, old: str, new: str) -> fk.Exploration:
    """The exploration in which one fact of a step is another; ``old`` is there."""
    args = torch.rand(6, 5), torch.arange(7) % 6, torch.rand(4, 5)
    x = fk.explore(looked_up, *args)
    text = print_graph(x[step].graph, lines=False)
    assert old in text, text

    def change(graph: Graph) -> PassResult:
        return fk.parse(text.replace(old, new)).draft("change").finish()

    at = [s.name for s in x.steps].index(step)
    passes = [*fk.PIPELINE[:at], change, *fk.PIPELINE[at:]]
    return fk.explore(looked_up, *args, options=fk.Options(passes=passes))


CHECK = "  ^check = fk.check_index(%at, size=6, dim=0, of='index', error='IndexError', wraps=True)\n"
WRONG = {
    "a check left out": ("functionalize", CHECK, "", "fk.check_index has to come before"),
    "a check of less": ("functionalize", "size=6", "size=1000000000", "fk.check_index has to come before"),
    "a check of other elements": ("functionalize", "index(%at,", "index(%weight,", "looks at positions in f32"),
    "a block that is larger": ("trace", "@0 : 120 bytes", "@0 : 64000000 bytes", "recorded was 120 bytes"),
    "a block of its own": ("schedule", "80 bytes cpu argument", "80 bytes cpu fresh", "nothing was written"),
    "a view past the end": ("trace", "(4,2):(5,1)+1", "(4,2):(5,1)+9000000", "layouts-fit"),
    "a view elsewhere": ("trace", "(4,2):(5,1)+1", "(4,2):(5,1)+2", "another layout than the graph says"),
    "strides to the front": ("functionalize", "(4,2):(5,1)+1", "(4,2):(-5,1)+1", "layouts-fit"),
    "an input of another type": (
        "schedule",
        "%out : f32 (4,5):(5,1)",
        "%out : f64 (2,5):(5,1)",
        "another layout or element",
    ),
    "a store that is not recorded": ("functionalize", "(4,2):(5,1)+1", "(4,3):(5,1)+1", "is not"),
    "a look-up along nothing": ("functionalize", "%where, dim=0)", "%where, dim=7)", "looks up"),
    "an op that is left out": ("trace", "  ^3 %index = aten.index.Tensor(%weight, [%at])\n", "", "nothing was written"),
    "a write that is not told": ("trace", ", 2) writes 0", ", 2)", "the graph does not say so"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_breaks_a_rule_is_refused_by_it(what: str) -> None:
    step, old, new, says = WRONG[what]
    with pytest.raises(InvalidGraph, match=says) as caught:
        brought(step, old, new).run()
    assert caught.value.fix and "bug" not in str(caught.value)


def test_an_equal_graph_runs() -> None:
    for step in ("trace", "functionalize", "segment", "schedule"):
        assert brought(step, "graph looked_up", "graph another").check().ok


def test_an_order_that_is_left_out_is_seen_in_memory() -> None:
    """Edges tell which op follows which; memory tells it too."""

    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        c = a @ b
        a.mul_(2)
        return c

    args = torch.rand(4, 4), torch.rand(4, 4)
    x = fk.explore(f, *args)
    lines = print_graph(x["segment"].graph, lines=False).split("\n")
    names = [line.split()[1] for line in lines if line.startswith("  segment ")]
    assert len(names) >= 3
    kept = [line for line in lines if not line.startswith(("  order ", "  boundary ", "  segment "))]
    segments = [line for line in lines if line.startswith("  segment ")]
    turned = [line.replace(line.split()[1], f"${k}") for k, line in enumerate(reversed(segments))]
    text = "\n".join([*kept[:-2], *turned, *kept[-2:]])

    def change(graph: Graph) -> PassResult:
        return fk.parse(text).draft("change").finish()

    at = [s.name for s in x.steps].index("segment")
    with pytest.raises(InvalidGraph, match="must follow"):
        fk.explore(f, *args, options=fk.Options(passes=[*fk.PIPELINE[:at], change, *fk.PIPELINE[at:]]))


def test_a_smaller_buffer_is_not_like_the_explored_one() -> None:
    """The same layout, and what the program makes of it reaches past the storage."""
    x = fk.explore(lambda a: a.as_strided((10,), (1,), 0) * 1, torch.arange(10.0)[:3])
    assert torch.equal(x.run(torch.arange(30.0)[:3]), torch.arange(10.0))  # type: ignore[arg-type]
    with pytest.raises(fk.FusekitError, match="bytes 0 to 40 of @0 are used, and its storage has 12"):
        x.run(torch.arange(3.0))


@pytest.mark.parametrize("value", [0.0, 1.5, -1.5, -1])
def test_integers_are_filled_with_any_number(value: float) -> None:
    """The recording says 1.5, of which eager takes the whole part."""

    def f(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.nn.functional.pad(a + 1, (1, 2), value=value),
            torch.full_like(a, value),
            a.to(torch.uint8).fill_(3.5),
        )

    a = torch.arange(5, dtype=torch.int32)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(fk.jit(f)(a), f(a), strict=True))
