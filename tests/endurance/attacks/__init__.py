"""Attacks: hostile files, damaged caches, long sessions, each a module with a function attack(seconds, seed)."""
