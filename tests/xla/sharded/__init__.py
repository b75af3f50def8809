"""Sharded programs of one idea each, with the collectives that a person expects."""
