"""Compiled PyTorch graphs: the ``torch.compile`` backend ``lazynb``.

``dynamo``: integration with Dynamo and ``torch.compile``.
``aot_graph``: callable forward and backward graphs.
``traced_graph``: a graph traced by JAX into one function.
"""
