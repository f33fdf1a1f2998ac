"""What a notebook shows of an exploration: plain data, a widget, and a page in one file. Nothing here imports torch.

The widget's module is imported only by who shows one, since it loads ipywidgets.
"""

from fusekit.notebook.document import Document, document
from fusekit.notebook.explored import Explored
from fusekit.notebook.report import page, report
from fusekit.notebook.state import Result, State

__all__ = ["Document", "Explored", "Result", "State", "document", "page", "report"]
