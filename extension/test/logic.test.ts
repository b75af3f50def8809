import { describe, expect, test } from "vitest";
import type { Cluster, Group, Node, Program } from "../src/model/data";
import { ABSENT, bytes, clip, figure, listed, seconds } from "../src/model/format";
import { type Branch, MOST, contentsOf, idsIn, linesOf, partsOf, titleOf, ungrouped } from "../src/graph/parts";
import { Scenes } from "../src/graph/scene";
import { curve, layOut } from "../src/graph/layout";
import { PALETTE, inkOn } from "../src/ui/palette";
import { Relations } from "../src/model/program";
import { total } from "../src/model/rates";
import { read } from "../src/model/read";
import { lit, highlightsOf, type Thing } from "../src/model/selection";
import { Store } from "../src/model/store";
import { came, isLiteral, nodeTitle, nodeWords, shortAval, times } from "../src/model/words";
import { carried } from "../src/model/carried";

const node = (id: number, more: Partial<Node> = {}): Node => ({
  id,
  kind: "op",
  name: `n${id}`,
  primitive: "add",
  operands: id ? [[id - 1, 0]] : [],
  avals: ["f32[2]"],
  place: { label: `line ${id}`, line: id, text: "x", cell: 1, source: 0 },
  callers: [],
  call: null,
  scope: "",
  names: [],
  value: null,
  output: false,
  dead: false,
  ...more,
});
const range = (n: number, make: (i: number) => Node = node): Node[] => Array.from({ length: n }, (_, i) => make(i));

describe("figures", () => {
  test("what is not known is a dash, never zero", () => {
    for (const write of [bytes, figure, seconds]) {
      expect(write(null)).toBe(ABSENT);
      expect(write(NaN)).toBe(ABSENT);
      expect(write(0)).not.toBe(ABSENT);
    }
  });
  test("units", () => {
    expect(bytes(1536)).toBe("1.5 KiB");
    expect(figure(2.5e9, "FLOP/s")).toBe("2.5 GFLOP/s");
    expect([seconds(2e-9), seconds(3.25e-5), seconds(0.0415), seconds(2)]).toEqual(["2 ns", "32.5 µs", "41.5 ms", "2 s"]);
    expect(listed(["a", "b", "c"], 2)).toBe("a, b and 1 more");
    expect(clip("abcdef", 4)).toBe("abc…");
  });
});

const group = (id: number, rule: string, parts: Group["parts"], more: Partial<Group> = {}): Group => ({
  id,
  rule,
  label: rule,
  inside: "",
  where: "",
  parts,
  ...more,
});
const byId = (nodes: readonly Node[]) => new Map(nodes.map((one) => [one.id, one]));

describe("groups", () => {
  const nodes = range(6);
  const tree = [0, group(1, "line", [1, group(2, "call", [2, 3]), 4]), 5];
  test("the parts are those that Python gave, in its order, each with all of its nodes", () => {
    const parts = partsOf(tree, byId(nodes));
    expect(parts.map(({ key }) => key)).toEqual(["n0", "line:1-4", "n5"]);
    expect(parts.map((part) => part.nodes.map(({ id }) => id))).toEqual([[0], [1, 2, 3, 4], [5]]);
    expect(partsOf(parts[1]?.group?.parts ?? [], byId(nodes)).map(({ key }) => key)).toEqual(["n1", "call:2-3", "n4"]);
    expect(idsIn(tree)).toEqual([0, 1, 2, 3, 4, 5]);
  });
  test("what is not among the nodes is not drawn", () => {
    expect(partsOf([0, 77, group(8, "line", [78, 79])], byId(nodes)).map(({ key }) => key)).toEqual(["n0"]);
  });
  test("groups open in place, and what is inside closes with them", () => {
    const scenes = new Scenes(new Relations(read({ nodes })), tree);
    const keys = () => scenes.whole().items.map(({ part }) => part.key);
    expect(keys()).toEqual(["n0", "line:1-4", "n5"]);
    scenes.toggle("line:1-4");
    scenes.toggle("call:2-3");
    const inner = scenes.whole().items[1]?.inner;
    expect(inner?.items.map(({ part }) => part.key)).toEqual(["n1", "call:2-3", "n4"]);
    expect(inner?.items[1]?.inner?.items.map(({ part }) => part.key)).toEqual(["n2", "n3"]);
    expect(keys()).toEqual(["n0", "line:1-4", "n5"]);
    scenes.toggle("line:1-4");
    expect(scenes.whole().items[1]?.inner).toBeNull();
  });
  test("groups open down to what is wanted", () => {
    const scenes = new Scenes(new Relations(read({ nodes })), tree);
    scenes.openTo("line:1-4", new Set([3]));
    expect([...scenes.open]).toEqual(["line:1-4", "call:2-3"]);
  });
  test("a number without a box stands in what uses it, whatever it is called", () => {
    const rate = node(0, { kind: "input", value: "0.01", names: ["lr"], avals: ["float32[]"] });
    const used = node(1, { operands: [[0, 0]] });
    const literals = (given: Branch[]) => {
      const { items } = new Scenes(new Relations(read({ nodes: [rate, used] })), given).whole();
      return items.map((item) => item.literals);
    };
    expect(literals([1])).toEqual([["lr=0.01"]]);
    expect(literals([0, 1])).toEqual([[], []]);
  });
  test("without groups each node is drawn, unless there are too many", () => {
    expect(ungrouped(nodes)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(ungrouped(range(MOST + 1))).toBeNull();
  });
  test("words", () => {
    const [inputs, line] = [group(0, "inputs", [], { label: "3 inputs", inside: "a, b, c" }), group(0, "line", [])];
    expect(contentsOf(inputs, range(3))).toBe("a, b, c");
    expect(contentsOf({ ...line, inside: "exp ×2, add" }, range(3))).toBe("3 operations · exp ×2, add");
    expect(titleOf(inputs)).toBe("3 inputs");
    expect(linesOf({ ...line, where: "cell 1, lines 0–2" })).toBe("cell 1, lines 0–2");
    expect(linesOf({ ...line, label: "cell 1, lines 0–2", where: "cell 1, lines 0–2" })).toBe("");
  });
});

const data = read({
  version: 1,
  nodes: range(4, (i) => node(i, { place: { label: "", line: i < 2 ? 1 : 2, text: "", cell: 1, source: 0 } })),
  fates: [0, 1, 2, 3].map((id) => ({ node: id, kind: "fused", clusters: id === 1 ? [0, 1] : id < 2 ? [0] : [1] })),
  clusters: [
    { id: 0, name: "f0", nodes: [0, 1], instructions: ["a", "b"] },
    { id: 1, name: "f1", nodes: [1, 2, 3], instructions: ["c"] },
  ],
  boundaries: [{ id: 5, producer: 0, consumer: 1, value: "b" }],
  programs: [
    {
      number: 0,
      hlo: {
        after: {
          lines: [
            { name: "b", text: "b", nodes: [1], cluster: 0 },
            { name: "c", text: "c", nodes: [2], cluster: 1 },
          ],
        },
      },
    },
  ],
});
const relations = new Relations(data);
const line = (name: string) =>
  ({ kind: "instruction", program: 0, line: data.programs[0]?.hlo.after.lines.find((one) => one.name === name) }) as Thing;

test("words for nodes", () => {
  const half = node(0, { kind: "input", name: "scalar", value: "0.5", avals: ["float32[]"] });
  expect(isLiteral(half)).toBe(true);
  expect(nodeTitle(half)).toBe("0.5");
  expect(isLiteral({ ...half, names: ["scale"] })).toBe(false);
  expect(ungrouped([half, node(1)])).toEqual([1]);
  expect(nodeWords(node(1, { name: "add", names: ["h"] }))).toBe("add (h)");
  expect(shortAval("bfloat16[2,3]")).toBe("bf16[2,3]");
});

test.each([
  ["compiled", 0.193, "compiled in 193 ms"],
  ["hit", 0, "cache hit"],
  ["given", 0, "given compiled"],
])("how a program was come by: %s", (cache, compile_seconds, words) => {
  expect(came({ cache, compile_seconds } as Program)).toBe(words);
});

describe("one selection", () => {
  test("a node highlights its line and all its kernels", () => {
    const highlights = highlightsOf({ kind: "node", id: 1 }, relations);
    expect([...highlights.clusters]).toEqual([0, 1]);
    expect([...highlights.lines]).toEqual(["0:1"]);
    expect(lit(line("b"), highlights)).toBe(true);
    expect(lit(line("c"), highlights)).toBe(false);
  });
  test("a kernel highlights its nodes, lines, instructions and boundaries", () => {
    const highlights = highlightsOf({ kind: "cluster", id: 1 }, relations);
    expect([...highlights.nodes]).toEqual([1, 2, 3]);
    expect([...highlights.lines]).toEqual(["0:1", "0:2"]);
    expect([...highlights.boundaries]).toEqual([5]);
    expect([lit(line("c"), highlights), lit(line("b"), highlights)]).toEqual([true, false]);
  });
  test("an instruction highlights the kernel it stands in, not where else its node is computed", () => {
    expect([...highlightsOf(line("b"), relations).clusters]).toEqual([0]);
  });
  test("a boundary highlights both kernels and what wrote the value", () => {
    const highlights = highlightsOf({ kind: "boundary", id: 5 }, relations);
    expect([...highlights.clusters]).toEqual([0, 1]);
    expect([...highlights.nodes]).toEqual([1]);
  });
  test("hover previews, click sticks, a second click lets go", () => {
    const store = new Store(data);
    store.hover({ kind: "node", id: 0 });
    expect(store.highlights.nodes.has(0)).toBe(true);
    store.click({ kind: "node", id: 3 });
    store.hover(null);
    expect([...store.highlights.nodes]).toEqual([3]);
    store.click({ kind: "node", id: 3 });
    expect(store.highlights.nodes.size).toBe(0);
  });
});

describe("reading", () => {
  test.each([undefined, null, 7, "x", [], {}, { nodes: 3, clusters: [null, 5], programs: [{ hlo: null }] }])(
    "%j becomes an inspection",
    (given) => {
      const made = read(given);
      expect(Array.isArray(made.nodes)).toBe(true);
      expect(() => new Store(made)).not.toThrow();
    },
  );
  test("null stays null, unknown keys do no harm", () => {
    const made = read({ clusters: [{ id: 3, cost: { flops: null }, future: 1 }], machine: null });
    expect(made.clusters[0]?.cost?.flops).toBeNull();
    expect(made.clusters[0]?.time).toBeNull();
    expect(made.machine).toBeNull();
  });
});

describe("layout", () => {
  test("layers follow the links and no box overlaps another", () => {
    const sizes = range(12).map(() => ({ width: 100, height: 40 }));
    const laid = layOut(sizes, [...range(11).map((_, i) => [i, i + 1] as const), [0, 5]], { between: 10, layers: 20 });
    for (let i = 0; i < 11; i += 1) expect(laid.boxes[i + 1]?.y).toBeGreaterThan((laid.boxes[i]?.y ?? 0) + 40);
    expect(laid.ways.every((way) => way.length > 1)).toBe(true);
  });
  test("nothing has no size", () => expect(layOut([], [], { between: 1, layers: 1 }).width).toBe(0));
  test("a path starts and ends at its points", () =>
    expect(
      curve([
        { x: 0, y: 0 },
        { x: 5, y: 5 },
        { x: 9, y: 9 },
      ]),
    ).toMatch(/^M0.0,0.0.*9.0,9.0$/));
});

test("all kernels: each as often as it runs", () => {
  const kernel = (flops: number | null, executions: number | null, kind = "loop", calls?: number) =>
    ({ kind, cost: { flops, executions }, time: calls === undefined ? null : { calls, median: 1 } }) as unknown as Cluster;
  const program = { total: { flops: { low: 30, high: null } } } as unknown as Program;
  expect(total("flops", [kernel(10, 5), kernel(7, 1)], [])).toEqual({ low: 57, high: 57 });
  expect(total("flops", [kernel(99, 1, "control"), kernel(7, 2)], [])).toEqual({ low: 14, high: 14 });
  expect(total("flops", [kernel(10, null), kernel(30, 1)], [program])).toEqual({ low: 30, high: null });
  expect(total("flops", [kernel(10, null, "loop", 4), kernel(30, 1)], [program])).toEqual({ low: 70, high: 70 });
  expect(total("flops", [kernel(null, 1)], [])).toBeNull();
});

test("chips can be read", () => {
  const luminance = (colour: string) =>
    [1, 3, 5]
      .map((at) => parseInt(colour.slice(at, at + 2), 16) / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
      .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i]!, 0);
  for (const colour of PALETTE) {
    const [high, low] = [luminance(colour), inkOn(colour) === "#fff" ? 1 : 0].sort((a, b) => b - a);
    expect((high! + 0.05) / (low! + 0.05), colour).toBeGreaterThanOrEqual(4.5);
  }
});

describe("what compiling took", () => {
  const given = {
    lowering: 0.012,
    compiling: 0.05,
    xla: 0.044,
    stages: [["HLO passes", 0.01], ["LLVM to machine code", 0.034], "x", ["y", "z"]],
    passes: [{ name: "fusion", runs: 2, changed: 1, seconds: 0.003 }],
    others: null,
    lines: [{ place: null, operations: 3, before: "?", after: 4, compiled: 1, seconds: 0.02 }],
    source: "XLA's own timing of this compilation",
  };
  const of = (one: unknown) => read({ programs: [one] }).programs[0]?.times ?? null;

  test("what Python sent is kept, and what is no figure is none", () => {
    const known = of({ times: given });
    expect(known?.stages).toEqual([
      ["HLO passes", 0.01],
      ["LLVM to machine code", 0.034],
    ]);
    expect(known?.passes).toEqual(given.passes);
    expect(known?.lines[0]).toMatchObject({ operations: 3, before: null, after: 4, lowering: null, seconds: 0.02 });
    expect(known?.loading).toBeNull();
    expect(known?.writing).toBeNull();
  });
  test("older data and programs that nobody compiled have no times", () => {
    expect(of({})).toBeNull();
    expect(times(null)).toBe("What compiling took is not known.");
    const why = "Not compiled here: the program was given compiled.";
    expect(times(of({ times: { why_not: why } }))).toBe(why);
    const loaded = {
      lowering: 0.012,
      loading: 0.004,
      why_not: "Not compiled here: the program was loaded from the persistent cache.",
    };
    expect(times(of({ times: loaded }))).toBe(`Lowering 12 ms, loading 4 ms. ${loaded.why_not}`);
  });
  test("lowering apart from compiling, and whose timing it is", () => {
    expect(times(of({ times: given }))).toBe(
      "Lowering 12 ms, compiling 50 ms, of which XLA 44 ms: XLA's own timing of this compilation.",
    );
    const earlier = { ...given, lowering: null, compiling: null, source: "XLA's own timing of an earlier compilation" };
    expect(times(of({ times: earlier }))).toBe("XLA 44 ms: XLA's own timing of an earlier compilation.");
  });
});

describe("a selection that goes over to another program of the same operations", () => {
  const made = (nodes: Node[], file = "cell") =>
    new Store({
      ...read({ nodes, sources: [{ file, cell: 1, first: 0, lines: ["x", "y", "z"] }] }),
      fates: nodes.map(({ id }) => ({
        node: id,
        kind: "fused",
        clusters: [0],
        with: null,
        by: "",
        text: "",
        label: "compiler said",
      })),
      clusters: [{ ...read({ clusters: [{ id: 0 }] }).clusters[0], nodes: nodes.map(({ id }) => id) } as Cluster],
    });
  const over = (thing: Thing, to: Store): Thing | null => {
    const from = made(range(3));
    from.click(thing);
    return carried(from, to);
  };

  test("a line is the line of the same file", () => {
    const line: Thing = { kind: "line", source: 0, line: 1 };
    expect(over(line, made(range(3)))).toEqual(line);
    expect(over(line, made(range(3), "another"))).toBeNull();
  });
  test("an operation is itself, or its line where the number means another", () => {
    const one: Thing = { kind: "node", id: 1 };
    expect(over(one, made(range(3)))).toEqual(one);
    const others = made(range(3, (id) => node(id, { primitive: "mul" })));
    expect(over(one, others)).toEqual({ kind: "line", source: 0, line: 1 });
  });
  test("of a kernel the operations that are there too", () => {
    const found = over({ kind: "cluster", id: 0 }, made(range(2)));
    expect(found?.kind === "nodes" && found.ids).toEqual([0, 1]);
    expect(over({ kind: "cluster", id: 0 }, made([]))).toBeNull();
  });
  test("nothing stays nothing", () => expect(carried(made(range(3)), made(range(3)))).toBeNull());
});
