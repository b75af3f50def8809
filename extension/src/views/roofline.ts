/** Intensity against speed, both logarithmic, under the roof that this machine's memory and arithmetic make. */

import type { Chip, Cluster, Machine } from "../model/data";
import { h, s } from "../ui/dom";
import { figure, ratio, seconds } from "../model/format";
import { colourOf, inkOn } from "../ui/palette";
import { intensity, speed } from "../model/rates";
import type { Store } from "../model/store";
import { tag } from "../ui/selectable";

const WIDTH = 640;
const HEIGHT = 300;
const EDGE = { left: 62, right: 18, top: 16, bottom: 40 };

interface Dot {
  cluster: Cluster;
  x: number;
  y: number;
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
    return x && y ? [{ cluster, x, y }] : [];
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
  const middle = Math.sqrt(left * ridge);
  svg.append(
    s("path.roof", { d: `M${px(left)},${py(bandwidth * left)}L${px(ridge)},${py(flops)}H${px(10 ** x1)}` }),
    s(
      "text.roof-label",
      { x: WIDTH - EDGE.right - 4, y: py(flops) - 6, "text-anchor": "end" },
      `${figure(flops, "FLOP/s")} peak`,
    ),
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
  for (const dot of dots) svg.append(point(dot, px, py, chip ? null : Math.min(flops, bandwidth * dot.x)));
  return h(
    "figure.roofline-holder",
    {},
    svg as unknown as HTMLElement,
    machine?.text ? h("figcaption.muted", {}, machine.text) : null,
  );
}

/** The roof of a chip that is not here. */
function published({ title, bandwidth, peaks }: Chip, clusters: readonly Cluster[]): Machine {
  const rates = clusters.flatMap(({ at_least: least }) => (least?.matrix ? [least.peak] : []));
  const highest = Math.max(...rates);
  const [type, flops] = peaks.find(([, rate]) => rate === highest) ?? peaks[0] ?? ["", null];
  return {
    flops,
    bandwidth,
    text: `Published figures of ${title}, its peak that of ${type}. Nothing ran: a kernel stands at the most that they allow it.`,
  };
}

const onChip = ({ cost, at_least: least }: Cluster): number | null =>
  cost?.flops && least?.moved ? cost.flops / least.moved : null;

const atMost = ({ cost, at_least: least }: Cluster): number | null =>
  cost?.flops && least?.seconds ? cost.flops / least.seconds : null;

function point({ cluster, x, y }: Dot, px: (x: number) => number, py: (y: number) => number, roof: number | null): SVGElement {
  const colour = colourOf(cluster);
  const words =
    roof === null
      ? `${cluster.label} ${cluster.name}: at most ${figure(y, "FLOP/s")} at ${ratio(x)} FLOP/byte of HBM, at least ${seconds(cluster.at_least?.seconds)}`
      : `${cluster.label} ${cluster.name}: ${figure(y, "FLOP/s")} at ${ratio(x)} FLOP/byte, ${((100 * y) / roof).toFixed(0)} % of what this machine allows, ${seconds(cluster.time?.median)}`;
  const group = s(
    "g.dot",
    { transform: `translate(${px(x).toFixed(1)},${py(y).toFixed(1)})`, "aria-label": words },
    s("title", {}, words),
    s("circle", { r: 11, fill: colour }),
    s("text", { y: 3.5, "text-anchor": "middle", fill: inkOn(colour) }, cluster.label),
  );
  return tag(group, { kind: "cluster", id: cluster.id });
}

function slope(px: (x: number) => number, py: (y: number) => number, x: number, bandwidth: number): string {
  return ((Math.atan2(py(bandwidth * x * 10) - py(bandwidth * x), px(x * 10) - px(x)) * 180) / Math.PI).toFixed(1);
}

const ratio10 = (e: number): string => (e >= 0 && e < 4 ? String(10 ** e) : e < 0 && e > -4 ? (10 ** e).toFixed(-e) : `1e${e}`);
