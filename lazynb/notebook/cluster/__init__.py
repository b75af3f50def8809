"""Runs the notebook's cells in several processes at once (``%lazy cluster``).

Modules, in reading order:

- ``cluster_session``: starts and ends a cluster; the command ``%lazy cluster``
- ``cluster_engines``: starts, finds and ends the processes (ipyparallel engines)
- ``engine_watcher``: process that kills the engines when the kernel ends
- ``rank_process``: functions that run in each engine
- ``cluster_routing``: sends a cell to the cluster or runs it in the notebook
- ``rank_execution``: runs one cell on all ranks; its errors and interrupts
- ``rank_outputs``: merges the outputs of the ranks into one cell output
- ``rank_differences``: output and trace breaks that differ between ranks
"""
