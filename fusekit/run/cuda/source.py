"""Printed source as a Python function, with the names that it calls put in from outside."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def execute(
    source: str,
    name: str,
    names: Mapping[str, Any],
    file: str = "<kernel>",
    device: Callable[[Callable[..., Any]], Any] = lambda function: function,
) -> Callable[..., None]:
    """Function ``name`` of ``source``; every other function there goes through ``device``.

    Its imports are for people who read or export it: none of them runs.
    """
    tree = ast.parse(source, file)
    tree.body = [node for node in tree.body if not isinstance(node, (ast.Import, ast.ImportFrom))]
    space: dict[str, Any] = {"np": np, "math": math, **names}
    exec(compile(tree, file, "exec"), space)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name != name:
            space[node.name] = device(space[node.name])
    return space[name]
