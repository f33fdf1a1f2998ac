"""Node ids: one string a node, whose first character says what the node is."""

from typing import NewType

NodeId = NewType("NodeId", str)

TENSOR, OP, BLOCK, SEGMENT = "%", "^", "@", "$"
ITERDOMAIN, TRANSFORM = "#", "!"


def kind_of(node: str) -> str:
    """The sigil of a node id: ``%`` tensor, ``^`` op, ``@`` memory block, ``$`` segment, ``#`` iteration domain, ``!`` transform."""
    return node[0]
