"""Graphs of PyTorch's operations (``torch.compile``), each call of which is one operation of the trace."""
