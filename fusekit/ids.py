"""Node ids: one string a node, whose first character says what the node is."""

from typing import NewType

NodeId = NewType("NodeId", str)

TENSOR, OP, BLOCK, SEGMENT = "%", "^", "@", "$"
ITERDOMAIN, TRANSFORM = "#", "!"


def kind_of(node: str) -> str:
    """A node id's first letter: ``%`` tensor, ``^`` op, ``@`` block, ``$`` segment, ``#`` domain, ``!`` transform."""
    return node[0]
