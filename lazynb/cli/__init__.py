"""The command line: a program run lazily, with a report and a budget."""
