"""Inspections for the browser tests: a small one by hand, and one of any size. Plain dicts, as the front end
receives them."""

from __future__ import annotations

import copy
from typing import Any

from lazynb.recording.snapshot import snapshot_nodes
from lazynb.report import GraphView, build
from lazynb.report.graph.graph_json import groups

Json = dict[str, Any]

CELL = """def block(x, w, b):
    h = x @ w + b
    a = h * jax.nn.sigmoid(h)
    return a, h

x = jnp.tanh(x0) * scale
a, h = block(x, w, b)
s = jax.nn.softmax(a)
unused = jnp.sin(x)
loss = (s * jnp.log(s + eps)).sum() * (2.0 * 0.5)""".split("\n")

WIDE = "f32[256,512]"
ROW = "f32[256,1]"
SIZES = {WIDE: 524288, ROW: 1024, "f32[512,512]": 1048576, "f32[512]": 2048, "f32[]": 4}


def place(line: int, cell: int = 3) -> Json:
    return {
        "label": f"cell {cell}, line {line}",
        "line": line,
        "text": CELL[line - 1],
        "cell": cell,
        "source": 0,
    }


def node(id: int, primitive: str, operands: list[int], aval: str, line: int, **more: Any) -> Json:
    standard = {
        "id": id,
        "kind": "op",
        "name": primitive,
        "primitive": primitive,
        "operands": [[o, 0] for o in operands],
        "avals": [aval],
        "place": place(line),
        "call": None,
        "scope": "",
        "names": [],
        "value": None,
        "output": False,
        "dead": False,
    }
    return {**standard, **more}


def given(id: int, name: str, aval: str) -> Json:
    return {**node(id, "", [], aval, 6), "kind": "input", "name": name, "names": [name], "place": None}


NODES = [
    given(0, "x0", WIDE),
    given(1, "w", "f32[512,512]"),
    given(2, "b", "f32[512]"),
    node(3, "tanh", [0], WIDE, 6),
    node(4, "mul", [3], WIDE, 6, names=["x"]),
    node(5, "dot_general", [4, 1], WIDE, 2),
    node(6, "add", [5, 2], WIDE, 2, names=["h"], output=True),
    node(7, "logistic", [6], WIDE, 3, call=1, scope="jit(sigmoid)"),
    node(8, "mul", [6, 7], WIDE, 3, names=["a"]),
    node(9, "reduce_max", [8], ROW, 8, call=2, scope="jit(softmax)"),
    node(10, "sub", [8, 9], WIDE, 8, call=2, scope="jit(softmax)"),
    node(11, "exp", [10], WIDE, 8, call=2, scope="jit(softmax)"),
    node(12, "reduce_sum", [11], ROW, 8, call=2, scope="jit(softmax)"),
    node(13, "div", [11, 12], WIDE, 8, call=2, scope="jit(softmax)", names=["s"]),
    node(14, "sin", [4], WIDE, 9, names=["unused"], dead=True),
    node(15, "add", [13], WIDE, 10),
    node(16, "log", [15], WIDE, 10),
    node(17, "mul", [13, 16], WIDE, 10),
    node(18, "reduce_sum", [17], "f32[]", 10),
    node(19, "mul", [], "f32[]", 10),
    node(20, "mul", [18, 19], "f32[]", 10, names=["loss"], output=True),
]


def fate(
    node: int,
    kind: str,
    clusters: list[int],
    text: str,
    label: str = "compiler said",
    by: str = "",
    with_: int | None = None,
) -> Json:
    return {
        "node": node,
        "kind": kind,
        "clusters": clusters,
        "with": with_,
        "by": by,
        "text": text,
        "label": label,
    }


def fused(node: int, *clusters: int) -> Json:
    words = " and ".join(f"c{c}" for c in clusters)
    return fate(node, "fused", list(clusters), f"fused into {words}", by="fusion")


FATES = [
    fused(3, 0),
    fused(4, 0),
    fate(5, "library", [1], "part of a call of YNNPACK"),
    fused(6, 2),
    fused(7, 2),
    fused(8, 2),
    fused(9, 3),
    fused(10, 4, 5),
    fused(11, 4, 5),
    fused(12, 4),
    fused(13, 5),
    fate(14, "dead", [], "dead: nothing uses it", by="dce"),
    fused(15, 5),
    fused(16, 5),
    fused(17, 5),
    fused(18, 5),
    fate(19, "folded", [], "folded to the constant 1.0", by="constant_folding"),
    fate(20, "cancelled", [], "cancelled: multiplied by 1", "rule inferred", by="algsimp"),
]


def clone(cluster: int, node: int) -> str:
    """Kernel 5 computes these two a second time, in instructions of its own."""
    return ".clone" if cluster == 5 and node in (10, 11) else ""


def cluster(
    id: int,
    kind: str,
    name: str,
    nodes: list[int],
    reads: list[Json],
    writes: list[Json],
    line: int,
    **more: Any,
) -> Json:
    total = sum(v["bytes"] for v in reads) + sum(v["bytes"] for v in writes)
    standard = {
        "id": id,
        "program": 0,
        "name": name,
        "opcode": "fusion",
        "kind": kind,
        "library": "",
        "root": f"{name}.root",
        "inside": None,
        "turns": None,
        "nodes": nodes,
        "instructions": [name, *[f"i{n}{clone(id, n)}" for n in nodes]],
        "duplicated": [],
        "inputs": reads,
        "outputs": writes,
        "input_bytes": sum(v["bytes"] for v in reads),
        "output_bytes": sum(v["bytes"] for v in writes),
        "passes": ["fusion"],
        "place": place(line),
        "cost": {
            "flops": 131072.0 * len(nodes),
            "transcendentals": 0.0,
            "bytes": float(total),
            "source": "XLA's cost analysis",
            "executions": 1,
        },
        "time": None,
        "colour": id,
    }
    return {**standard, **more}


def value(name: str, shape: str, source: int | None = None, node: int | None = None) -> Json:
    return {"from": source, "node": node, "name": name, "shape": shape, "bytes": SIZES[shape]}


CLUSTERS = [
    cluster(0, "loop", "tanh_multiply_fusion", [3, 4], [value("x0", WIDE, node=0)], [value("i4", WIDE)], 6),
    cluster(
        1,
        "library",
        "dot.ynn",
        [5],
        [value("i4", WIDE, 0), value("w", "f32[512,512]", node=1)],
        [value("i5", WIDE)],
        2,
        library="YNNPACK",
        opcode="custom-call",
        passes=["dot_library_rewriter"],
        cost={
            "flops": 134217728.0,
            "transcendentals": None,
            "bytes": 2097152.0,
            "source": "XLA's cost analysis",
            "executions": 1,
        },
    ),
    cluster(
        2,
        "output",
        "add_logistic_fusion",
        [6, 7, 8],
        [value("i5", WIDE, 1), value("b", "f32[512]", node=2)],
        [value("i6", WIDE), value("i8", WIDE)],
        3,
        passes=["fusion", "multi_output_fusion"],
    ),
    cluster(3, "input", "reduce_max_fusion", [9], [value("i8", WIDE, 2)], [value("i9", ROW)], 8),
    cluster(
        4,
        "input",
        "exp_reduce_fusion",
        [10, 11, 12],
        [value("i8", WIDE, 2), value("i9", ROW, 3)],
        [value("i12", ROW)],
        8,
        duplicated=[10, 11],
        cost=None,
    ),
    cluster(
        5,
        "input",
        "log_reduce_fusion",
        [10, 11, 13, 15, 16, 17, 18],
        [value("i8", WIDE, 2), value("i9", ROW, 3), value("i12", ROW, 4)],
        [value("i18", "f32[]")],
        10,
        duplicated=[10, 11],
    ),
]


def boundary(
    id: int, producer: int, consumer: int | None, shape: str, value: str, code: str, text: str, **more: Any
) -> Json:
    standard = {
        "id": id,
        "producer": producer,
        "consumer": consumer,
        "shape": shape,
        "bytes": SIZES[shape],
        "value": value,
        "code": code,
        "text": text,
        "hint": "",
        "label": "rule inferred",
        "said": "",
        "variables": [],
        "verify": None,
        "verdict": "",
    }
    return {**standard, **more}


BOUNDARIES = [
    boundary(
        0,
        0,
        1,
        WIDE,
        "i4",
        "library",
        "The `dot` is a call of YNNPACK: a library reads its operands from memory.",
        label="compiler said",
        said="cannot fuse into custom-call",
    ),
    boundary(
        1,
        1,
        2,
        WIDE,
        "i5",
        "library",
        "A library call writes its result to memory before other kernels can read it.",
        verify="replace-library",
    ),
    boundary(
        2,
        2,
        3,
        WIDE,
        "i8",
        "reduction",
        "A reduction reads all of a row before it gives a value, and a is read again afterwards.",
        hint="nothing to change: the row is needed twice",
    ),
    boundary(3, 2, 4, WIDE, "i8", "several-users", "a has several users: three kernels read it."),
    boundary(
        4,
        3,
        5,
        ROW,
        "i9",
        "reduction",
        "The maximum of a row must be known before the row can be shifted.",
        label="verified by recompiling",
        verdict="with the reduction taken out, both became one kernel",
    ),
    boundary(
        5, 4, 5, ROW, "i12", "reduction", "The sum of a row must be known before the row can be divided."
    ),
    boundary(
        6,
        2,
        None,
        WIDE,
        "i6",
        "kept-alive",
        "The value is written because the variable h is still alive.",
        variables=["h"],
        hint="del h before the cell ends",
        verify="drop-output",
    ),
]

SHAPES = {5: "dot", 7: "logistic", 9: "reduce", 12: "reduce", 18: "reduce"}


def instruction(n: Json, suffix: str = "", root: bool = False) -> str:
    operands = ", ".join(
        f"%i{o}" if NODES[o]["kind"] == "op" else f"%{NODES[o]['name']}" for o, _ in n["operands"]
    )
    opcode = {
        "mul": "multiply",
        "add": "add",
        "dot_general": "dot",
        "reduce_sum": "reduce",
        "reduce_max": "reduce",
        "div": "divide",
        "sub": "subtract",
        "exp": "exponential",
    }.get(n["primitive"], n["primitive"])
    layout = "{1,0}" if "," in n["avals"][0] else "{}"
    text = f"  {'ROOT ' if root else ''}%i{n['id']}{suffix} = {n['avals'][0]}{layout} {opcode}({operands})"
    return f'{text}, metadata={{op_name="jit(run)/n{n["id"]}"}}'


def line(
    text: str, name: str = "", nodes: tuple[int, ...] = (), cluster: int | None = None, computation: str = ""
) -> Json:
    return {"text": text, "name": name, "nodes": list(nodes), "cluster": cluster, "computation": computation}


def stage(lines: list[Json]) -> Json:
    return {"text": "\n".join(one["text"] for one in lines), "lines": lines}


def before() -> Json:
    lines = [
        line(
            "HloModule jit_run, entry_computation_layout={(f32[256,512]{1,0}, f32[512,512]{1,0}, "
            "f32[512]{0})->f32[]}"
        ),
        line(""),
        line("ENTRY %main {"),
    ]
    for n in NODES:
        if n["kind"] == "input":
            lines.append(
                line(
                    f"  %{n['name']} = {n['avals'][0]} parameter({n['id']})",
                    n["name"],
                    (n["id"],),
                    None,
                    "main",
                )
            )
        else:
            lines.append(line(instruction(n), f"i{n['id']}", (n["id"],), None, "main"))
    return stage([*lines, line("}")])


def after() -> Json:
    lines = [line("HloModule jit_run, is_scheduled=true"), line("")]
    for c in CLUSTERS:
        if c["kind"] == "library":
            continue
        lines.append(line(f"%fused_{c['id']} {{", cluster=c["id"], computation=f"fused_{c['id']}"))
        for n in c["nodes"]:
            lines.append(
                line(
                    instruction(NODES[n], clone(c["id"], n), n == c["nodes"][-1]),
                    f"i{n}{clone(c['id'], n)}",
                    (n,),
                    c["id"],
                    f"fused_{c['id']}",
                )
            )
        lines += [line("}"), line("")]
    lines.append(line("ENTRY %main {"))
    for c in CLUSTERS:
        operands = ", ".join(f"%{v['name']}" for v in c["inputs"])
        opcode = "custom-call" if c["kind"] == "library" else "fusion"
        tail = (
            'custom_call_target="__ynn$dot"'
            if c["kind"] == "library"
            else f"kind=k{c['kind'].title()}, calls=%fused_{c['id']}"
        )
        lines.append(
            line(
                f"  %{c['name']} = {c['outputs'][0]['shape']} {opcode}({operands}), {tail}",
                c["name"],
                tuple(c["nodes"]),
                c["id"],
                "main",
            )
        )
    return stage([*lines, line("}")])


def change(kind: str, n: int, before: str, after: str, into: str = "") -> Json:
    return {"kind": kind, "name": f"i{n}", "before": before, "after": after, "nodes": [n], "into": into}


PASSES = [
    {
        "index": 3,
        "pipeline": "simplification",
        "name": "constant_folding",
        "added": 1,
        "removed": 1,
        "rewritten": 0,
        "fused": 0,
        "changes": [
            change("removed", 19, instruction(NODES[19]), ""),
            change("added", 19, "", "  %c = f32[] constant(1)"),
        ],
    },
    {
        "index": 7,
        "pipeline": "simplification",
        "name": "algsimp",
        "added": 0,
        "removed": 1,
        "rewritten": 1,
        "fused": 0,
        "changes": [
            change("rewritten", 18, instruction(NODES[20]), instruction(NODES[18], root=True)),
            change("removed", 20, instruction(NODES[20]), ""),
        ],
    },
    {
        "index": 12,
        "pipeline": "library",
        "name": "dot_library_rewriter",
        "added": 0,
        "removed": 0,
        "rewritten": 1,
        "fused": 0,
        "changes": [
            change(
                "rewritten",
                5,
                instruction(NODES[5]),
                '  %dot.ynn = f32[256,512]{1,0} custom-call(%i4, %w), custom_call_target="__ynn$dot"',
            )
        ],
    },
    {
        "index": 21,
        "pipeline": "fusion",
        "name": "fusion",
        "added": 5,
        "removed": 0,
        "rewritten": 0,
        "fused": 16,
        "changes": [
            change("fused", n, instruction(NODES[n]), "", c["name"])
            for c in CLUSTERS
            if c["id"] != 1
            for n in c["nodes"]
        ],
    },
    {
        "index": 22,
        "pipeline": "fusion",
        "name": "multi_output_fusion",
        "added": 0,
        "removed": 0,
        "rewritten": 1,
        "fused": 1,
        "changes": None,
    },
]


def buffer(
    name: str,
    shape: str,
    start: int,
    end: int,
    kind: str,
    allocation: int,
    nodes: list[int],
    cluster: int | None,
    **more: Any,
) -> Json:
    return {
        "name": name,
        "bytes": SIZES[shape],
        "start": start,
        "end": end,
        "kind": kind,
        "allocation": allocation,
        "offset": 0,
        "shares": [],
        "donated": False,
        "variables": [],
        "nodes": nodes,
        "cluster": cluster,
        **more,
    }


MEMORY = {
    "allocated_bytes": 3149828,
    "peak_bytes": 2626568,
    "argument_bytes": 1574912,
    "output_bytes": 524292,
    "temp_bytes": 1050624,
    "alias_bytes": 0,
    "constant_bytes": 4,
    "in_use": [2099200, 2623488, 2626568, 2626568, 2624516, 2624516],
    "steps": [c["name"] for c in CLUSTERS],
    "peak_step": 2,
    "buffers": [
        buffer("x0", WIDE, 0, 5, "argument", 0, [0], None, donated=True),
        buffer("w", "f32[512,512]", 0, 5, "argument", 1, [1], None),
        buffer("b", "f32[512]", 0, 5, "argument", 2, [2], None),
        buffer("i4", WIDE, 0, 1, "temp", 3, [4], 0, shares=["i8"]),
        buffer("i5", WIDE, 1, 2, "temp", 3, [5], 1),
        buffer("i6", WIDE, 2, 5, "output", 4, [6], 2),
        buffer("i8", WIDE, 2, 5, "temp", 3, [8], 2, shares=["i4"]),
        buffer("i9", ROW, 3, 5, "temp", 3, [9], 3),
        buffer("i12", ROW, 4, 5, "temp", 3, [12], 4),
        buffer("i18", "f32[]", 5, 5, "output", 5, [18], 5),
        buffer("eps", "f32[]", 0, 5, "constant", 6, [], None),
    ],
    "source": "XLA's buffer assignment",
}


def small(**more: Any) -> Json:
    """21 nodes, 6 kernels, 7 boundaries: every fate but "merged" and "lost"."""
    made = {
        "version": 1,
        "title": "cell 3",
        "live": False,
        "ran": True,
        "target": "",
        "form": "",
        "instead": "",
        "sources": [{"file": "<ipython-input-3>", "cell": 3, "first": 1, "lines": CELL}],
        "nodes": NODES,
        "fates": FATES,
        "coverage": {"operations": 18, "followed": 17, "inferred": 1, "lost": 0},
        "programs": [
            {
                "number": 0,
                "operations": 18,
                "cache": "miss: first time",
                "compile_seconds": 0.213,
                "backend": "cpu",
                "hlo": {"before": before(), "after": after(), "passes": PASSES},
                "memory": MEMORY,
                "total": None,
            }
        ],
        "clusters": CLUSTERS,
        "boundaries": BOUNDARIES,
        "machine": None,
        "cache": {
            "columns": ["event", "key", "why"],
            "rows": [["miss", "5f3a…", "first time"], ["hit", "91cc…", ""]],
            "text": "",
        },
        "breaks": {"columns": [], "rows": [], "text": ""},
        "notes": ["this backend gives no cost of exp_reduce_fusion"],
    }
    return copy.deepcopy({**made, **more})


TIMES = [
    {"id": i, "time": {"median": t, "low": t * 0.9, "high": t * 1.35, "runs": 9, "calls": 1}}
    for i, t in enumerate([61e-6, 1.9e-3, 148e-6, 33e-6, 92e-6, 210e-6])
]
MACHINE = {"flops": 1.1e11, "bandwidth": 2.4e10, "text": "measured on this machine: 2 cores"}


def measured(**more: Any) -> Json:
    made = small(machine=MACHINE, **more)
    for one, time in zip(made["clusters"], TIMES):
        one["time"] = time["time"]
    return made


def hostile() -> Json:
    """Markup wherever a name, a line or a sentence can stand."""
    evil = "<img src=x onerror=window.injected=1>"
    made = small(title=evil, notes=[evil])
    made["nodes"][6]["names"] = [evil]
    made["nodes"][4].update(primitive=evil, name=evil)
    made["nodes"][3]["place"]["text"] = evil
    made["sources"][0]["lines"][5] = evil
    made["sources"][0]["file"] = evil
    made["fates"][3]["text"] = evil
    made["clusters"][0].update(name=evil, passes=[evil], library=evil)
    made["boundaries"][6].update(text=evil, hint=evil, said=evil, variables=[evil], verdict=evil, shape=evil)
    made["programs"][0].update(cache=evil, backend=evil)
    made["programs"][0]["hlo"]["after"]["lines"][3]["text"] = evil
    made["programs"][0]["hlo"]["passes"][0].update(name=evil, pipeline=evil)
    made["programs"][0]["hlo"]["passes"][0]["changes"][0].update(before=evil, name=evil, into=evil)
    made["programs"][0]["memory"]["buffers"][3].update(name=evil, shares=[evil])
    made["cache"]["rows"][0][2] = evil
    made["breaks"] = {"columns": [evil], "rows": [[evil]], "text": evil}
    return made


def view(nodes: list[Json], file: str) -> GraphView:
    """What Python draws of a graph."""
    made = []
    for one in nodes:
        where = one["place"]
        place = where and snapshot_nodes.Place(file, where["line"], where["text"], where["cell"])
        operands = tuple((node, result) for node, result in one["operands"])
        call = None if one["call"] is None else f"f{one['call']}"
        fields = {**one, "place": place, "operands": operands, "call": call, "call_id": one["call"]}
        made.append(
            snapshot_nodes.Node(**{**fields, "avals": tuple(one["avals"]), "names": tuple(one["names"])})
        )
    return build(snapshot_nodes.Snapshot(tuple(made)), limit=40)


def large(operations: int = 10_000) -> Json:
    """A long training step: layers of four lines in calls, a kernel for every 25 operations."""
    primitives = [
        "dot_general",
        "add",
        "mul",
        "tanh",
        "exp",
        "sub",
        "reduce_sum",
        "div",
        "broadcast_in_dim",
        "transpose",
    ]
    lines = [
        f"    y = layer_{i}(params[{i}], y)" if i % 4 else f"    y = y + attention(params[{i}], y)"
        for i in range(80)
    ]
    per = 25
    nodes = [{**given(i, f"p{i}", "f32[512]")} for i in range(100)]
    fates, clusters, boundaries, body = [], [], [], []
    for k in range(operations):
        id, at = 100 + k, k // (operations // 80 + 1)
        operands = (
            [id - 1 if k else 0]
            + ([id - 7] if k > 7 and k % 3 == 0 else [])
            + ([k % 100] if k % 11 == 0 else [])
        )
        where = {
            "label": f"cell {1 + at // 20}, line {at + 1}",
            "line": at + 1,
            "text": lines[at],
            "cell": 1 + at // 20,
            "source": 0,
        }
        nodes.append(
            {
                **node(id, primitives[k % 10], operands, "f32[512]", 1),
                "place": where,
                "call": k // 8 if k % 5 else None,
                "scope": f"jit(layer_{at})",
            }
        )
        if k % 97 == 3:
            fates.append(fate(id, "folded", [], "folded to a constant", by="constant_folding"))
        else:
            fates.append(fused(id, k // per))
        body.append(
            line(
                f"  %i{id} = f32[512]{{0}} {primitives[k % 10]}(%i{operands[0]})",
                f"i{id}",
                (id,),
                k // per,
                f"fused_{k // per}",
            )
        )
    for c in range(operations // per):
        ids = [100 + k for k in range(c * per, (c + 1) * per) if k % 97 != 3]
        one = cluster(
            c,
            "loop",
            f"loop_fusion.{c}",
            ids,
            [value(f"v{c}", "f32[512]")],
            [value(f"v{c + 1}", "f32[512]")],
            1,
            place=nodes[ids[0]]["place"],
            colour=c % 8,
        )
        one["instructions"] = [f"i{i}" for i in ids]
        one["time"] = {
            "median": 1e-6 * (1 + c % 9),
            "low": 0.9e-6 * (1 + c % 9),
            "high": 2e-6 * (1 + c % 9),
            "runs": 5,
            "calls": 1,
        }
        clusters.append(one)
        if c:
            boundaries.append(
                boundary(
                    c - 1,
                    c - 1,
                    c,
                    "f32[512]",
                    f"i{100 + c * per - 1}",
                    "size-limit",
                    "The fusion reached its size limit.",
                )
            )
    count = operations // per
    memory = {
        **MEMORY,
        "in_use": [2048 * (1 + c % 6) for c in range(count + 1)],
        "steps": [f"loop_fusion.{c}" for c in range(count)],
        "peak_step": count // 2,
        "buffers": [
            buffer(f"v{c}", "f32[512]", c, min(count - 1, c + 1 + c % 5), "temp", c % 7, [100 + c * per], c)
            for c in range(count)
        ],
    }
    program = {
        "number": 0,
        "operations": operations,
        "cache": "hit",
        "compile_seconds": 9.1,
        "backend": "cpu",
        "hlo": {"before": stage(body), "after": stage(body), "passes": PASSES},
        "memory": memory,
        "total": None,
    }
    return small(
        title=f"{operations:,} operations",
        sources=[{"file": "train.py", "cell": None, "first": 1, "lines": lines}],
        nodes=nodes,
        groups=groups(view(nodes, "train.py")),
        fates=fates,
        clusters=clusters,
        boundaries=boundaries,
        programs=[program],
        coverage={"operations": operations, "followed": operations, "inferred": 0, "lost": 0},
        machine=MACHINE,
    )


def empty() -> Json:
    """Nothing was recorded, nothing compiled."""
    nothing = {"columns": [], "rows": [], "text": ""}
    coverage = {"operations": 0, "followed": 0, "inferred": 0, "lost": 0}
    return small(
        title="empty",
        sources=[],
        nodes=[],
        fates=[],
        clusters=[],
        boundaries=[],
        programs=[],
        ran=False,
        cache=nothing,
        coverage=coverage,
        notes=[],
    )


def long_names() -> Json:
    """Names that no box can hold."""
    made = small(title="a title that goes on " * 12)
    for one in made["nodes"]:
        one["names"] = [name * 30 for name in one["names"]]
        one["name"] = one["name"] * 8
    for one in made["clusters"]:
        one["name"] = one["name"] * 6
        one["passes"] = one["passes"] * 9
    for one in made["boundaries"]:
        one["text"] = one["text"] * 5
        one["variables"] = [name * 60 for name in one["variables"]]
    made["sources"][0]["lines"][5] += "  # and then " * 30
    made["programs"][0]["cache"] = "miss: " + "because of this " * 20
    return made
