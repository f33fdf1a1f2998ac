"""Reasons and explanations as data; sentences are made from them, never the other way round."""

from fusekit.why.merges import TAKES, Merges, Trial
from fusekit.why.reasons import SENTENCES, Explanation, Reason

__all__ = ["SENTENCES", "TAKES", "Explanation", "Merges", "Reason", "Trial"]
