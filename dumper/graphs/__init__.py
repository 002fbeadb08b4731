"""Graph files: a model that is a file of operators, run by a runtime that shows no modules.

A format reads a file as a ``Graph``; the tree of modules and their calls follow from the scopes
that the exporter noted at each node; a runtime gives the values. What is written is a dump like
any other.
"""

from .dumping import GraphSettings, dump_graph, is_graph_file
from .graph import Optimization

__all__ = ["GraphSettings", "Optimization", "dump_graph", "is_graph_file"]
