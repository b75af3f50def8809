/** What the treemap of memory shows, and the labels of the roofline. */

import { expect, test } from "vitest";
import type { Buffer, Memory } from "../src/model/data";
import { inCache } from "../src/model/rates";
import { type Box, placed } from "../src/views/labels";
import { lyingAt } from "../src/views/treemap";

const buffer = (name: string, allocation: number, offset: number, bytes: number, more: Partial<Buffer> = {}): Buffer =>
  ({
    name,
    allocation,
    offset,
    bytes,
    start: 0,
    end: 9,
    kind: "temp",
    space: "",
    nodes: [],
    variables: [],
    shares: [],
    ...more,
  }) as unknown as Buffer;

const memory = (buffers: Buffer[]): Memory => ({ buffers, in_use: [], steps: [] }) as unknown as Memory;

const total = (buffers: Buffer[], step: number) => lyingAt(memory(buffers), step).reduce((sum, one) => sum + one.bytes, 0);

test("what lies in the same place counts once", () => {
  const lying = lyingAt(memory([buffer("a", 1, 0, 64), buffer("b", 1, 0, 64), buffer("c", 2, 0, 128)]), 3);
  expect(lying.map(({ buffer: { name }, bytes }) => [name, bytes])).toEqual([
    ["c", 128],
    ["a", 64],
  ]);
  expect(lying[1]?.with.map(({ name }) => name)).toEqual(["b"]);
});

test("constants, other memories and what does not live at the step are left out", () => {
  const all = [
    buffer("constant", 1, 0, 8, { kind: "constant" }),
    buffer("vmem", 2, 0, 8, { space: "VMEM" }),
    buffer("early", 3, 0, 8, { end: 1 }),
    buffer("late", 4, 0, 8, { start: 5 }),
  ];
  expect(lyingAt(memory(all), 3)).toEqual([]);
  expect(total(all, 0)).toBe(8);
});

test("of any buffers, the areas are the bytes that are in use", () => {
  let seed = 7;
  const random = (n: number) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  for (let round = 0; round < 200; round += 1) {
    const all = Array.from({ length: 1 + random(8) }, (_, i) =>
      buffer(`b${i}`, random(3), random(20), 1 + random(20), { start: random(4), end: 4 + random(4) }),
    );
    for (let step = 0; step < 8; step += 1) {
      const used = new Set<string>();
      for (const { allocation, offset, bytes, start, end } of all)
        if (start <= step && step <= end) for (let at = offset; at < offset + bytes; at += 1) used.add(`${allocation}:${at}`);
      expect(total(all, step)).toBe(used.size);
    }
  }
});

test("no label meets another, a point, or the edge", () => {
  const within: Box = { x: 0, y: 0, width: 400, height: 200 };
  const points = Array.from({ length: 90 }, (_, i) => ({ x: 20 + ((i * 37) % 360), y: 10 + ((i * 53) % 180), width: 30 }));
  const taken = points.map(({ x, y }) => ({ x: x - 6, y: y - 6, width: 12, height: 12 }));
  const boxes = placed(points, within, taken).filter((box) => box !== null);
  const meet = (a: Box, b: Box) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
  expect(boxes.length).toBeGreaterThan(20);
  boxes.forEach((box, i) => {
    expect(box.x >= 0 && box.y >= 0 && box.x + box.width <= 400 && box.y + box.height <= 200).toBe(true);
    expect(taken.some((one) => meet(one, box))).toBe(false);
    expect(boxes.some((other, k) => k !== i && meet(other, box))).toBe(false);
  });
});

const kernel = (bytes: number, seconds: number, flops = 1e3) =>
  ({ cost: { flops, bytes, transcendentals: 0 }, time: { median: seconds, calls: 1 } }) as never;

test("in cache is what is faster than memory and fits there", () => {
  const machine = { flops: 1e12, bandwidth: 1e10, text: "", cache: 1 << 20 };
  expect(inCache(kernel(1e5, 1e-6), machine)).toContain("fit in the processor's cache of 1 MiB");
  expect(inCache(kernel(1e5, 1e-4), machine)).toBe(""); // slower than memory
  expect(inCache(kernel(1e7, 1e-4), machine)).toBe(""); // too large for the cache
  expect(inCache(kernel(1e5, 1e-6, 1e9), machine)).toBe(""); // faster than arithmetic: no cache explains that
  expect(inCache(kernel(1e7, 1e-4), { ...machine, cache: null })).toContain("its data was in cache");
  expect(inCache(kernel(1e5, 1e-6), { ...machine, bandwidth: null })).toBe("");
});
