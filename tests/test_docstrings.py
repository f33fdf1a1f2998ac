"""Public methods say what they give."""

import inspect
from functools import cached_property

import pytest

import fusekit as fk
from fusekit.draw import Diagram
from fusekit.ir import Draft, Graph, GraphDiff
from fusekit.jit import JitFunction
from fusekit.lower import Kernel
from fusekit.notebook.widget import Stepper
from fusekit.pipeline import Step
from fusekit.run.profile import Profile
from fusekit.run.summary import SegmentView, Summary
from fusekit.why import Explanation, Merges

HANDED = (
    fk.Exploration, fk.Options, fk.CheckReport, fk.Reason, JitFunction, Graph, GraphDiff, Draft, Diagram, Stepper,
    Profile, Explanation, Merges, Kernel, Summary, SegmentView, Step,
)  # fmt: skip


@pytest.mark.parametrize("kind", HANDED, ids=lambda kind: kind.__name__)
def test_public_methods_say_what_they_give(kind: type) -> None:
    told = (property, staticmethod, classmethod, cached_property)
    silent = [
        name
        for name, value in vars(kind).items()
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, told))
        if not inspect.getdoc(value)
    ]
    assert not silent
