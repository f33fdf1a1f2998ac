"""``torch.compile(model, backend="fusekit")``: the entry point that Dynamo finds by name."""

from collections.abc import Sequence
from typing import Any, NoReturn

from fusekit.errors import UnsupportedError


def backend(graph: Any, example_inputs: Sequence[Any]) -> NoReturn:
    """Refuses the ``torch.fx`` graph module that Dynamo captured: this way in is not built yet."""
    raise UnsupportedError(
        "torch.compile has no fusekit backend yet",
        where=f"a graph of {len(example_inputs)} inputs",
        fix="compile the function itself with fusekit.jit(fn)",
    )
