import { expect, test } from "vitest";
import { Formed } from "../src/graph/formed";
import type { Formation, FormedBox } from "../src/model/data";
import { difference } from "../src/model/difference";
import { drawable, homesOf, standAt } from "../src/model/formation";

const words = (text: string, ranges: readonly (readonly [number, number])[]) => ranges.map(([a, b]) => text.slice(a, b));
function differing(a: string, b: string): [string[], string[]] {
  const found = difference(a, b);
  return [words(a, found.before), words(b, found.after)];
}

test("the words in which two lines differ", () => {
  expect(differing("%a = f32[8]{0} add(%x, %y)", "%a = f32[8]{1} add(%x, %z)")).toEqual([
    ["0", "y"],
    ["1", "z"],
  ]);
  expect(differing("%a = add(%x)", "%a = add(%x)")).toEqual([[], []]);
  expect(differing("a b", "a c b")).toEqual([[], ["c "]]);
  expect(differing("", "new words")).toEqual([[], ["new words"]]);
});

test("what is kept of two lines is the same text, whatever they are", () => {
  let seed = 7;
  const random = (n: number) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  const line = () => Array.from({ length: random(30) }, () => ["a", "b", "(", ",", " ", "cc"][random(6)]).join("");
  const without = (text: string, ranges: readonly (readonly [number, number])[]) =>
    [...ranges].reverse().reduce((left, [a, b]) => left.slice(0, a) + left.slice(b), text);
  for (let i = 0; i < 300; i += 1) {
    const [a, b] = [line(), line()];
    const { before, after } = difference(a, b);
    expect(without(a, before)).toBe(without(b, after));
  }
});

const box = (kernel: string, start = 0, more: Partial<FormedBox> = {}): FormedBox => ({
  shape: "",
  stands: [
    { stage: start, name: "n", opcode: "add", kernel: "n", nodes: [] },
    { stage: start + 1, name: "n", opcode: "add", kernel, nodes: [] },
  ],
  end: null,
  source: null,
  into: null,
  ...more,
});
const formation = (boxes: FormedBox[], links: [number, number, number, number][] = []): Formation => ({
  boxes,
  links,
  steps: [],
  gone: [],
});

test("what a box is at a stage", () => {
  const one = box("k", 1, { end: 4 });
  expect([0, 1, 2, 3, 4].map((stage) => standAt(one, stage)?.kernel)).toEqual([undefined, "n", "k", "k", undefined]);
});

test("what ends has the home of its heir, of its reader, else of what it reads", () => {
  const boxes = [
    box("k"),
    box("", 0, { end: 1, into: 0 }),
    box("", 0, { end: 1 }),
    box("", 0, { end: 1 }),
    box("", 0, { end: 1 }),
    box("l"),
  ];
  const links: Formation["links"] = [
    [2, 5, 0, 1],
    [5, 3, 0, 1],
  ];
  expect(homesOf(formation(boxes, links))).toEqual(["k", "k", "l", "l", "", "l"]);
  expect(homesOf(formation([box("", 0, { end: 1, into: 1 }), box("", 0, { end: 1, into: 0 })]))).toEqual(["", ""]);
});

test("of many boxes those around the seeds are drawn", () => {
  const links = Array.from({ length: 99 }, (_, i) => [i, i + 1, 0, 2] as [number, number, number, number]);
  const all = formation(
    Array.from({ length: 100 }, () => box("k")),
    links,
  );
  expect(drawable(all, [50], 100).size).toBe(100);
  const some = [...drawable(all, [50], 9)].sort((a, b) => a - b);
  expect(some).toEqual([46, 47, 48, 49, 50, 51, 52, 53, 54]);
  expect(drawable(all, [], 9).size).toBe(9);
});

test("a box keeps its place as long as it is alone, and a kernel's are inside of its hull", () => {
  const boxes = [box("k"), box("k"), box("l")];
  boxes.forEach(({ stands }, i) => (stands[0]!.kernel = `n${i}`));
  const made = new Formed(formation(boxes, [[0, 1, 0, 9]]), new Set([0, 1, 2]));
  const [first, second] = [made.frame(0), made.frame(1)];
  expect(first.hulls).toEqual([]);
  expect(second.hulls.map(({ kernel, boxes: held }) => [kernel, held])).toEqual([["k", [0, 1]]]);
  expect(second.places.get(2)).toEqual(first.places.get(2));
  const hull = second.hulls[0]!;
  for (const id of [0, 1]) {
    const { x, y } = second.places.get(id)!;
    expect(x).toBeGreaterThanOrEqual(hull.x);
    expect(y).toBeGreaterThanOrEqual(hull.y);
    expect(x + 128).toBeLessThanOrEqual(hull.x + hull.width);
    expect(y + 38).toBeLessThanOrEqual(hull.y + hull.height);
  }
  expect(first.wires).toEqual([[0, 1, true]]);
  expect(second.wires).toEqual([[0, 1, false]]);
});
