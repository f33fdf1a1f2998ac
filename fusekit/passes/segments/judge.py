"""Would some ops be one kernel? Judged on frozen op sets, each once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from fusekit.ids import NodeId
from fusekit.ir import Graph, OnTrial, core
from fusekit.schedule import SCHEDULERS, cannot_nest
from fusekit.why import TAKES, Reason

KERNELS = tuple(one for one in SCHEDULERS if one.name not in ("alias", "extern"))  # those that make kernels
ASKED = 32  # sets of one pass about which all schedulers are asked
ASKED_OPS = 200  # ops of the largest such set
Said = tuple[tuple[str, str], ...]
Ops = frozenset[NodeId]


@dataclass
class Judge:
    """Asks the rule that kernels are built by, then one scheduler after another. ``refused``: sets that the rule allows
    and no scheduler's loops lowered."""

    graph: Graph
    refused: Mapping[Ops, Reason] = field(default_factory=dict[Ops, Reason])
    _nests: dict[Ops, Reason | None] = field(default_factory=dict[Ops, "Reason | None"])
    _said: dict[Ops, Said] = field(default_factory=dict[Ops, Said])

    @cached_property
    def _trials(self) -> OnTrial:
        return OnTrial(self.graph)

    @cached_property
    def _folds(self) -> frozenset[NodeId]:
        return frozenset(op for op in self.graph.ops() if isinstance(self.graph.what(op), core.Reduce))

    def refusal(self, ops: Ops) -> Reason | None:
        """Why no nest of loops holds them; what holds no reduction always has one."""
        if self._folds.isdisjoint(ops):
            return None
        if ops in self.refused:
            return self.refused[ops]
        if ops not in self._nests:
            self._nests[ops] = cannot_nest(self.graph, sorted(ops, key=self.graph.position))
        return self._nests[ops]

    def asked(self, ops: Ops) -> Said:
        """(scheduler, what it said) up to the first that takes them; nothing where the set is large or many were."""
        if ops in self._said:
            return self._said[ops]
        if len(self._said) >= ASKED or len(ops) > ASKED_OPS:
            return ()
        segment = self._trials.segment_on_trial(ops)
        found: list[tuple[str, str]] = []
        for scheduler in KERNELS:
            refusal = scheduler.accepts(self._trials, segment)
            found.append((scheduler.name, TAKES if refusal is None else str(refusal)))
            if refusal is None:
                break
        self._said[ops] = tuple(found)
        return self._said[ops]
