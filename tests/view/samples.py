"""Small traces to draw."""

from __future__ import annotations

import random
from dataclasses import replace

from lazynb.recording.snapshot.snapshot_nodes import Node, Snapshot
from lazynb.user_code.source_lines import Place


class Trace:
    """Builds a snapshot node by node."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.calls = 0

    def input(self, name: str, aval: str = "float32[8,8]", **more) -> int:
        names = () if more.get("value") is not None else (name,)
        return self._add("input", name, (), aval, **{"names": names, **more})

    def op(self, name: str, *operands: int, aval: str = "float32[8,8]", **more) -> int:
        return self._add("op", name, tuple((i, 0) for i in operands), aval, **more)

    def call(self, call: str, names: list[str], start: int, **more) -> int:
        """One invocation of ``call`` that records a chain of operations."""
        self.calls += 1
        for name in names:
            start = self.op(name, start, call=call, call_id=self.calls, **more)
        return start

    def output(self, node: int, *names: str) -> None:
        self.nodes[node] = replace(self.nodes[node], output=True, names=names)

    def snapshot(self) -> Snapshot:
        return Snapshot(tuple(self.nodes))

    def _add(self, kind, name, operands, aval, **more) -> int:
        fields = {
            "place": None,
            "call": None,
            "call_id": None,
            "scope": "",
            "names": (),
            "value": None,
            "output": False,
            "dead": False,
        }
        fields.update(more)
        avals = (aval,) if isinstance(aval, str) else tuple(aval)
        primitive = name if kind == "op" else ""
        node = Node(len(self.nodes), kind, name, primitive, operands, avals, **fields)
        self.nodes.append(node)
        return node.id


def softmax_layer() -> Snapshot:
    """``y = jax.nn.softmax(x @ w + b)`` after ``x = data / 255``."""
    trace = Trace()
    line = Place("cell", 2, "y = jax.nn.softmax(x @ w + b)", 4)
    data = trace.input("data", "uint8[128,784]")
    scalar = trace.input("", "float32[]", value="255.0")
    x = trace.op(
        "divide", data, scalar, aval="float32[128,784]", place=Place("cell", 1, "x = data / 255.0", 4)
    )
    trace.output(x, "x")
    w, b = trace.input("w", "float32[784,10]"), trace.input("b", "float32[10]")
    logits = trace.op("matmul", x, w, aval="float32[128,10]", place=line)
    logits = trace.op("add", logits, b, aval="float32[128,10]", place=line)
    inside = ["reduce_max", "stop_gradient", "sub", "exp", "reduce_sum", "div"]
    trace.output(trace.call("softmax", inside, logits, aval="float32[128,10]", place=line), "y")
    return trace.snapshot()


def training_step(layers: int = 6) -> Snapshot:
    """A Flax-like step: forward, loss, backward and SGD, about 150 operations."""
    trace = Trace()
    at = {
        key: Place("train.py", line, text)
        for key, line, text in [
            ("model", 12, "logits = model.apply(params, x)"),
            ("loss", 13, "return optax.softmax_cross_entropy(logits, y).mean()"),
            ("grad", 17, "loss, grads = jax.value_and_grad(loss_fn)(params, x, y)"),
            ("sgd", 18, "params = jax.tree.map(lambda p, g: p - lr * g, params, grads)"),
        ]
    }
    x = trace.input("x", "float32[64,128]")
    trace.input("y", "float32[64,128]")  # read by nothing: not drawn
    lr = trace.input("lr", "float32[]", value="0.01", names=("lr",))
    params = [
        (
            trace.input(f"params.Dense_{i}.kernel", "float32[128,128]", names=()),
            trace.input(f"params.Dense_{i}.bias", "float32[128]", names=()),
        )
        for i in range(layers)
    ]
    kept, h = [x], x
    for i, (kernel, bias) in enumerate(params):
        more = {"aval": "float32[64,128]", "place": at["model"], "scope": f"jvp(MLP)/Dense_{i}"}
        h = trace.op("add", trace.op("dot_general", h, kernel, **more), bias, **more)
        h = trace.call(
            "gelu", ["pow", "mul", "add", "tanh", "add", "mul"], h, **{**more, "scope": "jvp(MLP)"}
        )
        kept.append(h)
    inside = ["reduce_max", "sub", "exp", "reduce_sum", "log", "sub", "mul", "reduce_sum"]
    h = trace.call("softmax_cross_entropy", inside, h, aval="float32[64]", place=at["loss"])
    loss = trace.op("mean", h, aval="float32[]", place=at["loss"], call="mean", call_id=900)
    trace.output(loss, "loss")
    inside = ["neg", "mul", "broadcast", "exp"]
    g = trace.call("softmax_cross_entropy", inside, h, aval="float32[64,128]", place=at["grad"])
    for i in reversed(range(layers)):
        more = {"aval": "float32[64,128]", "place": at["grad"], "scope": f"transpose(jvp(MLP))/Dense_{i}"}
        for name in ("mul", "tanh", "mul", "add_any"):
            g = trace.op(name, g, kept[i + 1], **more)
        pairs = [
            (params[i][0], trace.op("dot_general", kept[i], g, **{**more, "aval": "float32[128,128]"})),
            (params[i][1], trace.op("reduce_sum", g, **{**more, "aval": "float32[128]"})),
        ]
        g = trace.op("dot_general", g, params[i][0], **more)
        for param, grad in pairs:
            aval = trace.nodes[param].avals[0]
            step = trace.op("multiply", grad, lr, aval=aval, place=at["sgd"])
            trace.output(trace.op("subtract", param, step, aval=aval, place=at["sgd"]), "params")
    return trace.snapshot()


def chain(length: int = 10_000) -> Snapshot:
    """A loop that adds, multiplies and takes sines."""
    trace = Trace()
    node = trace.input("x")
    for i in range(length):
        line = 3 + i % 3
        node = trace.op(
            ("add", "mul", "sin")[i % 3], node, place=Place("cell", line, f"x = step{line}(x)", 7)
        )
    if length:
        trace.output(node, "x")
    return trace.snapshot()


def random_graph(size: int, seed: int = 0, *, reach: int | None = None) -> Snapshot:
    """Any acyclic trace: random operands, places, scopes, calls, outputs, dead operations and scalars."""
    rng = random.Random(seed)
    trace = Trace()
    call, call_id = None, None
    for i in range(size):
        if i == 0 or rng.random() < 0.1:
            trace.input(f"v{i}", value=rng.choice([None, None, "2.0"]))
            continue
        if rng.random() < 0.3:
            call, call_id = rng.choice([(None, None), ("f", i), ("g", i)])
        low = 0 if reach is None else max(0, i - reach)
        trace.op(
            rng.choice(["add", "mul", "sin"]),
            *(rng.randrange(low, i) for _ in range(rng.randint(1, 3))),
            place=rng.choice([None, Place("cell", rng.randint(1, 4), "a line", rng.randint(1, 3))]),
            scope=rng.choice(["", "A", "A/B", "transpose(jvp(A))/B"]),
            call=call,
            call_id=call_id,
            output=rng.random() < 0.1,
            dead=rng.random() < 0.1,
        )
    return trace.snapshot()
