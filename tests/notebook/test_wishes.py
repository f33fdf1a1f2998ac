"""What if: wishes of a page as decisions, and what comes of them; no widget and no browser."""

import pytest
import torch

from fusekit.exploration import Exploration, explore
from fusekit.notebook import document
from fusekit.notebook.wishes import Branch, Told, back, decided, wished


def rows_and_product(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x.exp()
    return y @ w + y, x.sum(1)


@pytest.fixture(scope="module")
def x() -> Exploration:
    return explore(rows_and_product, torch.rand(33, 33), torch.rand(33, 33))


@pytest.mark.parametrize(
    ("message", "decisions"),
    [
        ({"wish": "merge", "nodes": ["$0", "$1"]}, {"merge": ("$0", "$1")}),
        ({"wish": "split", "nodes": ["%exp"]}, {"split": "%exp"}),
        ({"wish": "without", "nodes": ["schedule"]}, {"without": "schedule"}),
        ({"wish": "conservative"}, {"alias": "conservative"}),
        ({"wish": "merge", "nodes": ["$0"]}, None),
        ({"wish": "split", "nodes": []}, None),
        ({"wish": "split", "nodes": "$0"}, None),
        ({"wish": "merge", "nodes": ["$0", 1]}, None),
        ({"wish": "conservative", "nodes": ["$0"]}, None),
        ({"wish": "fuse everything", "nodes": ["$0"]}, None),
        ({}, None),
    ],
)
def test_a_wish_is_a_decision_or_nothing(message, decisions):
    assert decided(message) == decisions


def test_a_wish_explores_anew_and_tells_what_changed(x):
    begun = Branch(x, x)
    branch = wished(begun, {"split": "$0"})
    counts = {name: (first, now) for name, first, now in branch.told.counts}
    assert branch.told.status == "ok" and not branch.told.is_first
    assert counts["kernels"] == (str(x.summary().kernels), str(x.summary().kernels + 1))
    assert "bytes moved" in counts, "x is read twice now"
    assert branch.told.decisions == ("split='$0'",) == document(branch.now).decisions
    assert branch.first is x and branch.now.check().ok
    assert back(branch) == begun and back(branch).told == Told()


def test_wishes_add_up_and_the_first_stays(x):
    branch = wished(wished(Branch(x, x), {"split": "$0"}), {"without": "schedule"})
    assert len(branch.told.decisions) == 2 and branch.first is x
    assert "schedule" not in [step.name for step in branch.now.steps]


def test_a_wish_without_effect_says_so(x):
    assert wished(Branch(x, x), {"alias": "conservative"}).told.counts == ()


def test_a_wish_that_is_not_legal_tells_three_parts_and_changes_nothing(x):
    split = wished(Branch(x, x), {"split": "$0"})
    for begun in (Branch(x, x), split):
        branch = wished(begun, {"split": "$99"})
        told = branch.told
        assert told.status == "failed" and "$99" in told.what and "segments are $0" in told.fix
        assert branch.now is begun.now and told.is_first == begun.told.is_first
        assert told.counts == begun.told.counts and told.decisions == begun.told.decisions
    merged = wished(Branch(x, x), {"merge": ("$0", "$1")}).told
    assert "library call" in merged.what and merged.fix


def test_any_error_is_told(x):
    class Broken:
        summary = x.summary

        def what_if(self, **decisions: object) -> None:
            raise ValueError("<b>no</b>")

    assert wished(Branch(x, Broken()), {"split": "$0"}).told.what == "ValueError: <b>no</b>"
