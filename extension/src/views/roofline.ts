/** Intensity against speed, both logarithmic, under the roof that this machine's memory and arithmetic make. */

import type { Chip, Cluster, Machine } from "../model/data";
import { h, s } from "../ui/dom";
import { count, figure, ratio, seconds } from "../model/format";
import { colourOf } from "../ui/palette";
import { inCache, intensity, speed } from "../model/rates";
import type { Store } from "../model/store";
import { tag } from "../ui/selectable";
import { type Box, freest, placed } from "./labels";

const WIDTH = 640;
const HEIGHT = 300;
const EDGE = { left: 62, right: 18, top: 16, bottom: 40 };

const RADIUS = 5;
const PARTS = [0.5, 0.3, 0.75, 0.15]; // of the memory's roof, at which its label may stand
const LABELS = 80; // that are tried: the kernels that take longest

interface Dot {
  cluster: Cluster;
  x: number;
  y: number;
  /** Why it may stand above the roof, '' if it does not. */
  cached: string;
}

/** A power of ten at or below, and one at or above. */
function decades(values: number[]): [number, number] {
  const low = Math.floor(Math.log10(Math.min(...values)));
  const high = Math.ceil(Math.log10(Math.max(...values)));
  return [low, Math.max(high, low + 1)];
}

export function rooflinePlot(clusters: readonly Cluster[], store: Store): HTMLElement {
  const { chip } = store.data;
  const machine = chip ? published(chip, clusters) : store.data.machine;
  const dots: Dot[] = clusters.flatMap((cluster) => {
    const x = chip ? onChip(cluster) : intensity(cluster);
    const y = chip ? atMost(cluster) : speed(cluster);
    return x && y ? [{ cluster, x, y, cached: machine && !chip ? inCache(cluster, machine) : "" }] : [];
  });
  const flops = machine?.flops ?? null;
  const bandwidth = machine?.bandwidth ?? null;
  if (!dots.length || !flops || !bandwidth) {
    if (chip) return h("div.empty.small", {}, "No kernel of this program has operations to draw under the chip's roofline.");
    const missing = [dots.length ? "" : "times and costs of kernels", flops && bandwidth ? "" : "this machine's measured peak"]
      .filter(Boolean)
      .join(" and ");
    return h("div.empty.small", {}, `The roofline needs ${missing}.${store.data.live ? " Measure gives them." : ""}`);
  }
  const ridge = flops / bandwidth;
  const [x0, x1] = decades([...dots.map((dot) => dot.x), ridge / 4, ridge * 4]);
  const [y0, y1] = decades([...dots.map((dot) => dot.y), flops, Math.min(flops, bandwidth * 10 ** x0)]);
  const px = (x: number) => EDGE.left + ((Math.log10(x) - x0) / (x1 - x0)) * (WIDTH - EDGE.left - EDGE.right);
  const py = (y: number) => HEIGHT - EDGE.bottom - ((Math.log10(y) - y0) / (y1 - y0)) * (HEIGHT - EDGE.top - EDGE.bottom);
  const svg = s("svg.roofline", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": "roofline" });
  for (let e = x0; e <= x1; e += 1) {
    svg.append(
      s("path.grid", { d: `M${px(10 ** e)},${EDGE.top}V${HEIGHT - EDGE.bottom}` }),
      s("text.tick", { x: px(10 ** e), y: HEIGHT - EDGE.bottom + 15, "text-anchor": "middle" }, ratio10(e)),
    );
  }
  for (let e = y0; e <= y1; e += 1) {
    svg.append(
      s("path.grid", { d: `M${EDGE.left},${py(10 ** e)}H${WIDTH - EDGE.right}` }),
      s("text.tick", { x: EDGE.left - 7, y: py(10 ** e) + 4, "text-anchor": "end" }, figure(10 ** e)),
    );
  }
  const left = 10 ** x0;
  const full = dots.map((dot) => around(px(dot.x), py(dot.y), RADIUS + 1));
  const peak = peakLabel(`${figure(flops, "FLOP/s")} peak`, px(ridge), py(flops), full);
  const along = (part: number) => left ** (1 - part) * ridge ** part;
  const middle = along(
    freest(
      PARTS.map((part) => ({ part, box: around(px(along(part)), py(bandwidth * along(part)) - 10, 40) })),
      full,
    ).part,
  );
  svg.append(
    s("path.roof", { d: `M${px(left)},${py(bandwidth * left)}L${px(ridge)},${py(flops)}H${px(10 ** x1)}` }),
    peak.text,
    s(
      "text.roof-label",
      {
        x: px(middle),
        y: py(bandwidth * middle) - 7,
        "text-anchor": "middle",
        transform: `rotate(${slope(px, py, middle, bandwidth)} ${px(middle)} ${py(bandwidth * middle)})`,
      },
      `memory ${figure(bandwidth, "B/s")}`,
    ),
    s("text.axis", { x: (WIDTH + EDGE.left - EDGE.right) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, "FLOP per byte"),
    s(
      "text.axis",
      { x: -(HEIGHT - EDGE.bottom + EDGE.top) / 2, y: 13, "text-anchor": "middle", transform: "rotate(-90)" },
      "FLOP per second",
    ),
  );
  full.push(peak.box);
  for (let at = -0.7; at <= 0.7; at += 0.1) full.push(around(px(middle * 10 ** at), py(bandwidth * middle * 10 ** at) - 10, 8));
  const named = labels(dots, px, py, full);
  svg.append(
    ...named.leaders,
    ...dots.map((dot) => point(dot, px, py, chip ? null : Math.min(flops, bandwidth * dot.x))),
    ...named.texts,
  );
  const unlabelled = dots.length - named.texts.length;
  const said = [
    machine?.text,
    cachedWords(dots),
    unlabelled ? `${count(unlabelled, "point")} without a label, for want of room` : "",
  ];
  const words = said.filter(Boolean).map((one) => one!.replace(/\.?$/, "."));
  return h("figure.roofline-holder", {}, svg, words.length ? h("figcaption.muted", {}, words.join(" ")) : null);
}

/** The roof of a chip that is not here. */
function published({ title, bandwidth, peaks }: Chip, clusters: readonly Cluster[]): Machine {
  const rates = clusters.flatMap(({ at_least: least }) => (least?.matrix ? [least.peak] : []));
  const highest = Math.max(...rates);
  const equal = peaks.filter(([, rate]) => rate === highest);
  const flops = equal.length ? highest : (peaks[0]?.[1] ?? null);
  const type = equal.map(([name]) => name).join(" or ") || (peaks[0]?.[0] ?? "");
  return {
    flops,
    bandwidth,
    cache: null,
    text: `Published figures of ${title}, its peak that of ${type}. Nothing ran: a kernel stands at the most that they allow it.`,
  };
}

const onChip = ({ cost, at_least: least }: Cluster): number | null =>
  cost?.flops && least?.moved ? cost.flops / least.moved : null;

const atMost = ({ cost, at_least: least }: Cluster): number | null =>
  cost?.flops && least?.seconds ? cost.flops / least.seconds : null;

const around = (x: number, y: number, by: number): Box => ({ x: x - by, y: y - by, width: 2 * by, height: 2 * by });

/** Along the roof, or below it where points are in the way. */
function peakLabel(words: string, ridge: number, y: number, full: readonly Box[]): { text: SVGElement; box: Box } {
  const width = words.length * 6.8;
  const right = WIDTH - EDGE.right - 4;
  const at = (end: number, base: number) => ({ end, base, box: { x: end - width, y: base - 11, width, height: 14 } });
  const middle = Math.min(right, Math.max(ridge + width, (ridge + right) / 2));
  const left = Math.max(ridge - 8, EDGE.left + width);
  const places = [at(right, y - 6), at(middle, y - 6), at(right, y + 15), at(middle, y + 15), at(left, y - 6), at(right, y + 32)];
  const { end, base, box } = freest(places, full);
  return { text: s("text.roof-label", { x: end, y: base, "text-anchor": "end" }, words), box };
}

const nearest = (x: number, from: number, length: number): number => Math.min(from + length, Math.max(from, x));

/** "c3": the labels of the kernels that take longest, as far as there is room, and lines to those that stand further off. */
function labels(dots: readonly Dot[], px: (x: number) => number, py: (y: number) => number, full: readonly Box[]) {
  const time = ({ cluster }: Dot) => cluster.time?.median ?? cluster.at_least?.seconds ?? 0;
  const first = [...dots].sort((a, b) => time(b) - time(a)).slice(0, LABELS);
  const words = ({ cluster, cached }: Dot) => cluster.label + (cached && " in cache");
  const points = first.map((dot) => ({ x: px(dot.x), y: py(dot.y), width: words(dot).length * 6.8 + 4 }));
  const within = { x: EDGE.left, y: EDGE.top, width: WIDTH - EDGE.left - EDGE.right, height: HEIGHT - EDGE.top - EDGE.bottom };
  const leaders: SVGElement[] = [];
  const texts: SVGElement[] = [];
  placed(points, within, full).forEach((box, i) => {
    const [dot, at] = [first[i], points[i]];
    if (!box || !dot || !at) return;
    const [x, y] = [nearest(at.x, box.x, box.width), nearest(at.y, box.y, box.height)];
    if (Math.hypot(x - at.x, y - at.y) > 2 * RADIUS)
      leaders.push(s("path.leader", { d: `M${at.x.toFixed(1)},${at.y.toFixed(1)}L${x.toFixed(1)},${y.toFixed(1)}` }));
    const place = {
      x: (box.x + box.width / 2).toFixed(1),
      y: (box.y + 10).toFixed(1),
      "text-anchor": "middle",
      "aria-hidden": "true",
    };
    texts.push(tag(s("text.dot-label", place, words(dot)), { kind: "cluster", id: dot.cluster.id }, false));
  });
  return { leaders, texts };
}

/** What stands above the roof, and why. */
function cachedWords(dots: readonly Dot[]): string {
  const cached = dots.filter((dot) => dot.cached);
  const [one] = cached;
  if (!one) return "";
  const { label } = one.cluster;
  return cached.length === 1
    ? `${label} is faster than memory: ${one.cached}`
    : `${cached.length} kernels are faster than memory; of ${label}: ${one.cached}`;
}

function point(
  { cluster, x, y, cached }: Dot,
  px: (x: number) => number,
  py: (y: number) => number,
  roof: number | null,
): SVGElement {
  const share =
    roof === null ? "" : cached ? `in cache (${cached})` : `${((100 * y) / roof).toFixed(0)} % of what this machine allows`;
  const words =
    roof === null
      ? `${cluster.label} ${cluster.name}: at most ${figure(y, "FLOP/s")} at ${ratio(x)} FLOP/byte of HBM, at least ${seconds(cluster.at_least?.seconds)}`
      : `${cluster.label} ${cluster.name}: ${figure(y, "FLOP/s")} at ${ratio(x)} FLOP/byte, ${share}, ${seconds(cluster.time?.median)}`;
  const group = s(
    "g.dot",
    { transform: `translate(${px(x).toFixed(1)},${py(y).toFixed(1)})`, "aria-label": words },
    s("title", {}, words),
    s("circle", { r: RADIUS, fill: colourOf(cluster) }),
  );
  return tag(group, { kind: "cluster", id: cluster.id });
}

function slope(px: (x: number) => number, py: (y: number) => number, x: number, bandwidth: number): string {
  return ((Math.atan2(py(bandwidth * x * 10) - py(bandwidth * x), px(x * 10) - px(x)) * 180) / Math.PI).toFixed(1);
}

const ratio10 = (e: number): string => (e >= 0 && e < 4 ? String(10 ** e) : e < 0 && e > -4 ? (10 ** e).toFixed(-e) : `1e${e}`);
