/** What a kernel reaches, from its cost and its time. */

import type { Cluster } from "./data";

/** Executions in one run of the program, as far as is known. */
export const calls = (cluster: Cluster): number => cluster.time?.calls ?? 1;

/** FLOP/s that were reached: the cost is of one execution, the time of all. */
export function speed(cluster: Cluster): number | null {
  const flops = cluster.cost?.flops;
  const time = cluster.time?.median;
  return flops && time ? (flops * calls(cluster)) / time : null;
}

/** FLOPs for each byte that is read or written. */
export const intensity = (cluster: Cluster): number | null => {
  const { flops, bytes: moved } = cluster.cost ?? {};
  return typeof flops === "number" && typeof moved === "number" && moved > 0 ? flops / moved : null;
};
