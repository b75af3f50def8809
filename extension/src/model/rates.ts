/** What a kernel reaches, from its cost and its time, and what all kernels cost. */

import type { Bounds, Cluster, Machine, Program } from "./data";
import { bytes, figure } from "./format";

export type Figure = "flops" | "transcendentals" | "bytes";

/** Executions in one run of the program: as XLA knows them, else as they were measured; null: nobody knows. */
export const calls = (cluster: Cluster): number | null => cluster.cost?.executions ?? cluster.time?.calls ?? null;

/** FLOP/s that were reached: the cost is of one execution, the time of all. */
export function speed(cluster: Cluster): number | null {
  const flops = cluster.cost?.flops;
  const time = cluster.time;
  return flops && time?.median ? (flops * time.calls) / time.median : null;
}

/** FLOPs for each byte that is read or written. */
export const intensity = (cluster: Cluster): number | null => {
  const { flops, bytes: moved } = cluster.cost ?? {};
  return typeof flops === "number" && typeof moved === "number" && moved > 0 ? flops / moved : null;
};

/** All kernels together; null where the figure of one is not known. */
export function sum(clusters: readonly Cluster[], of: (cluster: Cluster) => number | null | undefined): number | null {
  let all = 0;
  for (const cluster of clusters) {
    const one = of(cluster);
    if (one === null || one === undefined) return null;
    all += one;
  }
  return all;
}

/** All executions of a kernel together. */
export function allExecutions(figure: Figure, cluster: Cluster): number | null {
  const [one, times] = [cluster.cost?.[figure], calls(cluster)];
  return typeof one === "number" && times !== null ? one * times : null;
}

/** All kernels together, each as often as it runs. A loop's own figure is that of what is in it, so it does not count. */
export function total(figure: Figure, clusters: readonly Cluster[], programs: readonly Program[]): Bounds | null {
  const all = sum(clusters, (one) => (one.kind === "control" ? 0 : allExecutions(figure, one)));
  return all === null ? bounds(figure, programs) : { low: all, high: all };
}

/** What Python says of whole programs. */
function bounds(figure: Figure, programs: readonly Program[]): Bounds | null {
  const parts = programs.map((program) => program.total?.[figure]);
  if (!parts.length || !parts.every((part) => part)) return null;
  const low = parts.reduce((sum, part) => sum + part!.low, 0);
  return {
    low,
    high: parts.reduce<number | null>((sum, part) => (sum === null || part!.high === null ? null : sum + part!.high), 0),
  };
}

/** Why a kernel is faster than this machine's memory: its data was in cache. '' where it is not, or where its data cannot all have
    been there, or where it is faster than arithmetic too. */
export function inCache(cluster: Cluster, { flops, bandwidth, cache }: Machine): string {
  const moved = cluster.cost?.bytes;
  const time = cluster.time;
  if (!moved || !time?.median || !bandwidth || !flops || (speed(cluster) ?? 0) > flops) return "";
  const rate = (moved * time.calls) / time.median;
  if (rate <= bandwidth) return "";
  if (cache) return moved <= cache ? `its ${bytes(moved)} fit in the processor's cache of ${bytes(cache)}` : "";
  return `${figure(rate, "B/s")}, and memory gives ${figure(bandwidth, "B/s")}: its data was in cache`;
}
