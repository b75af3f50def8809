import { ChangeSet, type ChangeSpec, Text } from "@codemirror/state";
import { describe, expect, test, vi } from "vitest";
import { inspectionOf, isGraph } from "../src/lab/graphdata";
import { type Held, follow, place } from "../src/lab/held";
import { type Events, Link, type Wire } from "../src/lab/link";
import { MarkStore, coloursOf, weightOf } from "../src/lab/marks";
import type { Break, FromFrontEnd, Line, Marks, State } from "../src/lab/messages";
import { optionsOf, standard } from "../src/lab/settings";
import schema from "../schema/plugin.json";
import { compilingWords, costOf, figures, inBrief, legendOf } from "../src/lab/words";

const kernel = (id: number, colour = id) => ({
  id,
  chip: `c${id}`,
  heading: "",
  colour,
  name: "fusion",
  kind: "loop fusion",
  fates: [],
  cost: "",
});
const broke = (rank: number, more: Partial<Break> = {}): Break => ({
  code: "LNB101",
  kind: "branch",
  text: "",
  hint: "",
  count: 1,
  operations: 0,
  compiles: 0,
  seconds: 0.5,
  rank,
  ...more,
});
const line = (n: number, text: string, more: Partial<Line> = {}): Line => ({
  line: n,
  text,
  kernels: [kernel(n)],
  fates: [],
  breaks: [],
  ...more,
});
const marks = (cell: string, lines: Line[]): Marks => ({ type: "marks", file: "f", run: 1, cell, lines, compilation: 1 });
const state = (more: Partial<State> = {}): State => ({
  type: "state",
  version: 1,
  lazy: true,
  pending: 1,
  executables: 2,
  hits: 3,
  misses: 4,
  breaks: 5,
  seconds: 0.1,
  compilation: 1,
  text: "words",
  ...more,
});

// ---- the link -----------------------------------------------------------------------------------------------------------

class FakeWire implements Wire {
  readonly kernel = "k";
  comms: string[] = [];
  sent: [string, FromFrontEnd][] = [];
  events!: Events;
  stopped = false;
  broken = false;
  find = async () => [...this.comms];
  send(comm: string, message: FromFrontEnd) {
    if (this.broken) throw new Error("disposed");
    this.sent.push([comm, message]);
  }
  listen(events: Events) {
    this.events = events;
    return () => void (this.stopped = true);
  }
  get kinds() {
    return this.sent.map(([, { type }]) => type);
  }
}

function linked(comms: string[] = []) {
  const wire = new FakeWire();
  wire.comms = comms;
  const listener = { changed: vi.fn(), marks: vi.fn(), cleared: vi.fn() };
  const link = new Link(
    wire,
    listener,
    () => true,
    () => 10_000,
  );
  return { wire, listener, link };
}
const settled = () => new Promise((resolve) => setTimeout(resolve));

describe("link", () => {
  test("a kernel without lazynb is sent nothing", async () => {
    const { wire, link } = linked();
    await settled();
    expect(wire.sent).toEqual([]);
    await expect(link.ask({ type: "compile" })).rejects.toThrow("not loaded");
    expect(wire.sent).toEqual([]);
  });

  test("says hello and its settings on a comm that was there, and on one that is opened", async () => {
    for (const there of [true, false]) {
      const { wire, link } = linked(there ? ["a"] : []);
      await settled();
      if (!there) wire.events.opened("a");
      expect(wire.sent).toEqual([
        ["a", { type: "hello" }],
        ["a", { type: "settings", autocompile: true }],
      ]);
      expect(link.alive).toBe(true);
    }
  });

  test("an opened comm is not replaced by what was found before it", async () => {
    const { wire } = linked(["old"]);
    wire.events.opened("new");
    await settled();
    expect(new Set(wire.sent.map(([comm]) => comm))).toEqual(new Set(["new"]));
  });

  test("hears its own comm only", async () => {
    const { wire, link, listener } = linked(["a"]);
    await settled();
    wire.events.said("b", state());
    expect(link.state).toBeNull();
    wire.events.said("a", state());
    expect(link.state?.pending).toBe(1);
    wire.events.said("a", { ...state({ pending: 9 }), version: 2 });
    expect(link.state?.pending).toBe(1);
    for (const odd of [null, 3, {}, { type: "other" }]) wire.events.said("a", odd);
    wire.events.said("a", marks("cell", []));
    expect(listener.marks).toHaveBeenCalledTimes(1);
  });

  test("answers go by id, in any order", async () => {
    const { wire, link } = linked(["a"]);
    await settled();
    const first = link.ask({ type: "show", view: "graph" });
    const second = link.ask({ type: "compile" });
    const [show, compile] = wire.sent.slice(-2).map(([, message]) => message as { id: number });
    expect(show!.id).not.toBe(compile!.id);
    wire.events.said("a", { type: "done", id: compile!.id, text: "ran" });
    wire.events.said("a", { type: "panel", id: -1, view: "graph", data: 0, text: "" });
    wire.events.said("a", { type: "panel", id: show!.id, view: "graph", data: 7, text: "" });
    expect((await second).text).toBe("ran");
    expect((await first).data).toBe(7);
  });

  test("an error is one", async () => {
    const { wire, link } = linked(["a"]);
    await settled();
    const asked = link.ask({ type: "clear" });
    wire.events.said("a", { type: "done", id: (wire.sent.at(-1)![1] as { id: number }).id, text: "", error: "interrupted" });
    await expect(asked).rejects.toThrow("interrupted");
    wire.broken = true;
    await expect(link.ask({ type: "clear" })).rejects.toThrow("nothing answers");
  });

  test.each(["lost", "closed", "disposed"])("when it is %s: marks and state go, who waits is told", async (how) => {
    const { wire, link, listener } = linked(["a"]);
    await settled();
    wire.events.said("a", state());
    wire.events.said("a", { type: "compiling", operations: 3, cell: "c", label: "cell 1", seconds: 2 });
    expect(link.busy?.since).toBe(8_000);
    const asked = link.ask({ type: "compile" });
    if (how === "lost") wire.events.lost();
    else if (how === "closed") wire.events.closed("a");
    else link.dispose();
    await expect(asked).rejects.toThrow("restarted or stopped");
    expect([link.state, link.busy, link.alive]).toEqual([null, null, false]);
    expect(listener.cleared).toHaveBeenCalledTimes(1);
    expect(wire.stopped).toBe(how === "disposed");
  });

  test("a compilation that ended is none", async () => {
    const { wire, link } = linked(["a"]);
    await settled();
    wire.events.said("a", { type: "compiling", operations: 3, cell: "c", label: "cell 1", seconds: 0 });
    wire.events.said("a", { type: "compiled" });
    expect(link.busy).toBeNull();
  });

  test("after a reconnection it asks again, and keeps its comm", async () => {
    const { wire, link, listener } = linked(["a"]);
    await settled();
    wire.comms = ["a", "b"];
    wire.events.connected();
    await settled();
    expect(wire.kinds.filter((kind) => kind === "hello")).toHaveLength(2);
    expect(wire.sent.every(([comm]) => comm === "a")).toBe(true);
    wire.comms = [];
    wire.events.connected();
    await settled();
    expect(link.alive).toBe(false);
    expect(listener.cleared).toHaveBeenCalledTimes(1);
  });
});

// ---- marks ----------------------------------------------------------------------------------------------------------------

describe("marks", () => {
  test("are kept by kernel and cell", () => {
    const changed = vi.fn();
    const store = new MarkStore(changed);
    store.put("k", marks("a", [line(1, "x")]));
    store.put("l", marks("a", [line(2, "x")]));
    expect(store.of("k", "a")?.lines[0]?.line).toBe(1);
    expect(store.of("l", "a")?.lines[0]?.line).toBe(2);
    expect(store.of(undefined, "a")).toBeNull();
    store.put("k", marks("a", []));
    expect(store.of("k", "a")).toBeNull();
    store.clear("l");
    store.clear("l");
    expect(changed.mock.calls).toEqual([
      ["k", "a"],
      ["l", "a"],
      ["k", "a"],
      ["l", null],
    ]);
  });

  test("colours once each, breaks by rank", () => {
    expect(coloursOf(line(1, "", { kernels: [kernel(1, 2), kernel(2, 2), kernel(3, 0)] }))).toEqual([2, 0]);
    expect([[], [broke(1), broke(9)], [broke(2)], [broke(4)]].map((breaks) => weightOf(line(1, "", { breaks })))).toEqual([
      0, 1, 2, 3,
    ]);
  });
});

const SOURCE = ["a = 1", "b = 2", "c = 3", "b = 2"];
const text = (lines: string[] = SOURCE) => Text.of(lines);
/** Which line (from 1) shows the mark of which. */
const shown = (held: readonly Held[], doc: Text) =>
  Object.fromEntries(held.filter(({ holds }) => holds).map(({ line: { line: was }, at }) => [doc.lineAt(at).number, was]));

class Editing {
  doc: Text;
  held: readonly Held[];
  private undoing: [ChangeSet, Text][] = [];
  constructor(lines: Line[], source: string[] = SOURCE) {
    this.doc = text(source);
    this.held = place(this.doc, lines);
  }
  apply(set: ChangeSet) {
    this.undoing.push([set.invert(this.doc), this.doc]);
    const after = set.apply(this.doc);
    this.held = follow(this.held, this.doc, after, set);
    this.doc = after;
    return this.shown;
  }
  change(spec: ChangeSpec) {
    return this.apply(ChangeSet.of(spec, this.doc.length));
  }
  undo() {
    const [set] = this.undoing.pop()!;
    const result = this.apply(set);
    this.undoing.pop();
    return result;
  }
  get shown() {
    return shown(this.held, this.doc);
  }
  /** [from, to] of a line, its end included where there is a next one. */
  whole(n: number): { from: number; to: number } {
    const { from, to } = this.doc.line(n);
    return { from, to: Math.min(this.doc.length, to + 1) };
  }
}
const all = () => SOURCE.map((one, i) => line(i + 1, one));

describe("lines that still hold", () => {
  test("a line that reads otherwise has none; one that moved is found where that is sure", () => {
    expect(new Editing(all()).shown).toEqual({ 1: 1, 2: 2, 3: 3, 4: 4 });
    expect(new Editing(all(), ["a = 1", "b = 5", "c = 3", "b = 2"]).shown).toEqual({ 1: 1, 3: 3 }); // b = 2 was there twice
    expect(new Editing(all(), ["new", ...SOURCE]).shown).toEqual({ 2: 1, 4: 3 });
    expect(new Editing([line(9, "gone"), line(1, "a = 1", { kernels: [] })]).shown).toEqual({});
  });

  test("a change of a line clears its marks, undoing brings them back", () => {
    const now = new Editing(all());
    const { to } = now.doc.line(2);
    expect(now.change({ from: to, insert: "0" })).toEqual({ 1: 1, 3: 3, 4: 4 });
    expect(now.undo()).toEqual({ 1: 1, 2: 2, 3: 3, 4: 4 });
  });

  test("lines that come in before move the others", () => {
    const now = new Editing(all());
    expect(now.change({ from: 0, insert: "new\n" })).toEqual({ 2: 1, 3: 2, 4: 3, 5: 4 });
    expect(now.change({ from: now.doc.line(3).from, insert: "\n" })).toEqual({ 2: 1, 4: 2, 5: 3, 6: 4 });
    expect(now.change({ from: now.doc.line(5).to, insert: "\nnew" })).toEqual({ 2: 1, 4: 2, 5: 3, 7: 4 });
  });

  test("a comment typed before a line, letter by letter, moves it", () => {
    for (const [at, moved] of [
      [1, { 2: 1, 3: 2, 4: 3, 5: 4 }],
      [3, { 1: 1, 2: 2, 4: 3, 5: 4 }],
    ] as const) {
      const now = new Editing(all());
      let { from } = now.doc.line(at);
      for (const letter of "# why\n") now.change({ from: from++, insert: letter });
      expect(now.shown).toEqual(moved);
    }
    const back = new Editing(all());
    back.change({ from: 0, insert: "#" });
    expect(back.change({ from: 0, to: 1 })).toEqual({ 1: 1, 2: 2, 3: 3, 4: 4 });
  });

  test("a deleted line takes no other's mark with it, and comes back by undoing", () => {
    const now = new Editing(all());
    expect(now.change(now.whole(3))).toEqual({ 1: 1, 2: 2, 3: 4 });
    expect(now.undo()).toEqual({ 1: 1, 2: 2, 3: 3, 4: 4 });
    const equal = new Editing([line(1, "b = 2"), line(2, "b = 2")], ["b = 2", "b = 2"]);
    expect(equal.change(equal.whole(1))).toEqual({ 1: 2 });
    expect(equal.undo()).toEqual({ 1: 1, 2: 2 });
  });

  test("joined lines hold no longer, cut ones neither", () => {
    const now = new Editing(all());
    const { to } = now.doc.line(1);
    expect(now.change({ from: to, to: to + 1 })).toEqual({ 2: 3, 3: 4 });
    expect(now.undo()).toEqual({ 1: 1, 2: 2, 3: 3, 4: 4 });
    expect(now.change({ from: 2, insert: "\n" })).toEqual({ 3: 2, 4: 3, 5: 4 });
  });

  test("a split cell keeps what holds in its part", () => {
    const now = new Editing(all());
    expect(now.change({ from: 0, to: now.doc.length, insert: "c = 3\nb = 2" })).toEqual({ 1: 3 }); // which b = 2 it was is not sure
    const other = new Editing(all().slice(0, 3), SOURCE.slice(0, 3));
    expect(other.change({ from: 0, to: other.doc.length, insert: "c = 3" })).toEqual({ 1: 3 });
  });

  test("of many random changes, every shown mark stands on its own text, once", () => {
    let seed = 7;
    const random = (n: number) => (seed = (seed * 48271) % 2147483647) % n;
    const source = Array.from({ length: 30 }, (_, i) => `v${i % 12} = ${i % 7}`);
    const now = new Editing(
      source.map((one, i) => line(i + 1, one)),
      source,
    );
    for (let i = 0; i < 500; i += 1) {
      const from = random(now.doc.length + 1);
      now.change({ from, to: Math.min(now.doc.length, from + random(12)), insert: ["", "x", "\n", "v1 = 1\n"][random(4)] });
      const holding = now.held.filter(({ holds }) => holds);
      for (const { line: mark, at } of holding) {
        expect(now.doc.lineAt(at).from).toBe(at);
        expect(now.doc.lineAt(at).text).toBe(mark.text);
      }
      expect(new Set(holding.map(({ at }) => at)).size).toBe(holding.length);
    }
  });
});

// ---- words and data ---------------------------------------------------------------------------------------------------------

describe("words", () => {
  test("of a line, a break, the status", () => {
    expect(inBrief(line(3, "x", { breaks: [broke(1, { count: 4 })] }))).toBe("line 3: kernel c3, 4 trace breaks");
    expect(inBrief(line(3, "x", { kernels: [], fates: ["add: dead"] }))).toBe("line 3: in no kernel");
    expect(costOf(broke(1, { count: 3, operations: 12, compiles: 1, seconds: 0.337 }))).toBe(
      "3 times · 12 operations · 1 compilation · 337 ms · costliest of the session",
    );
    expect(figures(state()).map(({ value, name }) => `${value} ${name}`)).toEqual([
      "1 pending",
      "2 executables",
      "3/7 hits",
      "5 breaks",
    ]);
  });
  test("of what the marks of a line mean", () => {
    expect(legendOf(line(1, "x"))).toBe("");
    expect(legendOf(line(1, "x", { kernels: [], fates: ["add: dead"] }))).toContain("Dashes");
    expect(legendOf(line(1, "x", { kernels: [0, 1, 2, 3, 4, 5].map((id) => kernel(id)) }))).toContain("4 of its 6 colours");
    const said = [1, 3, 4].map((rank) => legendOf(line(1, "x", { breaks: [broke(rank), broke(9)] })));
    expect(said.map((text) => text.split(" ")[1])).toEqual(["large", "small", "hollow"]);
  });
  test("of a compilation", () => {
    const busy = { type: "compiling" as const, operations: 1812, cell: "c", label: "cell 4", seconds: 0, since: 1000 };
    expect(compilingWords(busy, 4200)).toBe("compiling 1,812 operations, cell 4, 3 s");
    expect(compilingWords({ ...busy, label: "" }, 66_000)).toBe("compiling 1,812 operations, 1 min 5 s");
  });
});

test("settings that are missing or odd are the schema's defaults", () => {
  const defaults = Object.fromEntries(
    Object.entries(schema.properties).map(([key, one]) => [key, (one as { default: unknown }).default]),
  );
  expect(defaults).toEqual(standard);
  expect(optionsOf({})).toEqual(standard);
  expect(optionsOf({ gutter: false, colours: "high contrast", autocompile: true, other: 1 })).toEqual({
    gutter: false,
    colours: "high contrast",
    autocompile: true,
  });
});

describe("the graph of the MIME bundle", () => {
  const counts = { operations: 2, inputs: 1, scalars: 0, outputs: 1, dead: 1 };
  const boxes = [
    { id: 0, kind: "input", label: "x", avals: ["f32[2]"] },
    { id: 1, kind: "group", label: "layer", badges: ["×12", "output"], output: true, members: [[1, 12]] },
  ];
  test("a version that is not known is none", () => {
    expect(isGraph({ version: 1, boxes: [] })).toBe(true);
    for (const odd of [null, 3, "x", {}, { version: 2, boxes: [] }, { version: 1 }]) expect(isGraph(odd)).toBe(false);
  });
  test("nodes as they are, dead ones marked", () => {
    const nodes = [
      { id: 0, kind: "input", name: "x" },
      { id: 1, kind: "op", name: "sin", operands: [[0, 0]], dead: true },
    ];
    const made = inspectionOf({ version: 1, title: "t", counts, boxes, nodes });
    expect(made.nodes.map(({ name }) => name)).toEqual(["x", "sin"]);
    expect(made.fates.map(({ node, kind }) => [node, kind])).toEqual([[1, "dead"]]);
  });
  test("boxes where nodes are left out", () => {
    const made = inspectionOf({
      version: 1,
      title: "t",
      counts,
      boxes,
      edges: [{ tail: 0, head: 1 }],
      nodes: [],
      nodes_left_out: 900,
    });
    expect(made.nodes.map(({ name, operands, output }) => [name, operands, output])).toEqual([
      ["x", [], false],
      ["layer ×12", [[0, 0]], true],
    ]);
  });
});
