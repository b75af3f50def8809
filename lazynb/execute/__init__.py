"""Execution: programs, executables, the flush and the event log."""
