/** What stands in the boxes of a graph, how much room it takes, and how kernels are listed. */

import { fullest } from "../src/graph/sight";
import { describe, expect, test } from "vitest";
import type { Cluster, Node } from "../src/model/data";
import { keptAs, partsOf, statementOf } from "../src/graph/parts";
import { Scenes } from "../src/graph/scene";
import { Relations } from "../src/model/program";
import { read } from "../src/model/read";
import { Store } from "../src/model/store";
import { describe as inWords, ranges } from "../src/ui/describe";

const place = (line: number, text: string) => ({ label: `a.py:${line}`, line, text, cell: null, source: 0 });
const op = (id: number, line: number, more: Partial<Node> = {}): Partial<Node> => ({
  id,
  kind: "op",
  name: "sin",
  operands: id ? [[id - 1, 0]] : [],
  avals: ["float32[8]"],
  place: place(line, `y = step_${line}(y)`),
  ...more,
});
const given = (nodes: Partial<Node>[], more = {}) => read({ nodes, ...more });
const part = (nodes: Partial<Node>[]) => {
  const { nodes: known } = given(nodes);
  const map = new Map(known.map((node) => [node.id, node]));
  const group = { id: 0, rule: "line", label: "two", inside: "", where: "", parts: known.map(({ id }) => id) };
  return partsOf(known.length > 1 ? [group] : [0], map)[0]!;
};

describe("a box", () => {
  test("says which variables hold it", () => {
    expect(keptAs(part([op(0, 1)]))).toBeNull();
    expect(keptAs(part([op(0, 1, { output: true })]))).toBe("→ result");
    expect(keptAs(part([op(0, 1, { output: true, names: ["q"] })]))).toBe("→ q");
    expect(keptAs(part([op(0, 1, { output: true }), op(1, 1, { output: true })]))).toBe("→ 2 results");
    const both = [op(0, 1, { output: true, names: ["h"] }), op(1, 1, { output: true, names: ["q"] })];
    expect(keptAs(part(both))).toBe("→ h, q");
  });

  test("says the line on which all of it was written", () => {
    expect(statementOf(part([op(0, 1), op(1, 1)]))).toBe("y = step_1(y)");
    expect(statementOf(part([op(0, 1), op(1, 2)]))).toBe("");
    expect(statementOf(part([op(0, 1, { place: null })]))).toBe("");
  });

  test("leaves out a line that the one above says", () => {
    const nodes = [op(0, 1), op(1, 1), op(2, 2), op(3, 1)];
    const scenes = new Scenes(new Relations(given(nodes)), [0, 1, 2, 3]);
    const said = scenes.whole().items.map(({ statement }) => statement);
    expect(said).toEqual(["y = step_1(y)", "", "y = step_2(y)", "y = step_1(y)"]);
  });

  test("has room for both, however long", () => {
    const long = "a_variable_with_a_name_that_is_longer_than_any_box_could_ever_be_drawn";
    const sizes = [op(0, 1), op(0, 1, { output: true, names: ["q"] }), op(0, 1, { output: true, names: [long] })].map((node) => {
      const [item] = new Scenes(new Relations(given([node])), [0]).whole().items;
      return { foot: item?.foot, height: item?.height ?? 0, width: item?.width ?? 0 };
    });
    expect(sizes.map(({ foot }) => foot)).toEqual([0, 20, 40]);
    expect(sizes[1]!.height - sizes[0]!.height).toBe(20);
    expect(sizes[2]!.width).toBeLessThanOrEqual(300);
  });
});

describe("kernels", () => {
  test("that follow each other are a range", () => {
    expect(ranges(["c0", "c1", "c2", "c7"])).toBe("c0–c2, c7");
    expect(ranges(["c0", "c1"])).toBe("c0, c1");
    expect(ranges(["c3", "c3.0", "c4"])).toBe("c3, c3.0, c4");
    expect(ranges([])).toBe("");
  });

  const cluster = (id: number, program: number): Partial<Cluster> => ({ id, label: `c${id}`, program, nodes: [id] });
  const line = (programs: { number: number; runs: number }[], home: (id: number) => number, ran = false) => {
    const nodes = Array.from({ length: 6 }, (_, id) => op(id, 1));
    const data = given(nodes, {
      ran,
      programs,
      sources: [{ file: "a.py", cell: null, first: 1, lines: ["y = step_1(y)"] }],
      clusters: nodes.map((_, id) => cluster(id, home(id))),
      fates: nodes.map((_, id) => ({ node: id, kind: "own kernel", clusters: [id], text: "", label: "compiler said" })),
    });
    return inWords({ kind: "line", source: 0, line: 1 }, new Store(data)).facts[1];
  };

  test("of a line are told by program, with how often that ran", () => {
    const programs = [
      { number: 0, runs: 1 },
      { number: 1, runs: 11 },
    ];
    expect(line(programs, (id) => (id < 3 ? 0 : 1))).toBe("in program 1, run 1×: c0–c2; program 2, run 11×: c3–c5");
    expect(line([{ number: 0, runs: 0 }], () => 0)).toBe("in c0–c5");
  });
});

test("a window shows where nearly the most boxes are, the highest of such", () => {
  const box = { width: 10, height: 10 };
  const row = (y: number, ...xs: number[]) => xs.map((x) => ({ x, y }));
  const places = [...row(0, 500), ...row(200, 0, 20, 40, 50), ...row(400, 300, 310, 320, 330, 340)];
  expect(fullest(places, box, { width: 60, height: 30 })).toEqual({ x: 0, y: 200 });
  expect(fullest(places, box, { width: 600, height: 600 })).toEqual({ x: 0, y: 0 });
  expect(fullest(row(7, 3), box, { width: 5, height: 20 })).toEqual({ x: 3, y: 7 });
  expect(fullest([], box, { width: 60, height: 30 })).toBeNull();
});
