/** How often something runs in one run of its program. */

import type { Cluster } from "../model/data";
import { bytes, count } from "../model/format";
import { calls } from "../model/rates";
import { h } from "./dom";

/** How often a kernel runs, unless that is once: "×5". */
export function executions(cluster: Cluster): HTMLElement | null {
  const times = calls(cluster);
  if (times === null && cluster.cost) return h("span.times", { title: "how often it runs is not known" }, "×?");
  return times !== null && times !== 1
    ? h("span.times", { title: `${times} executions in one run of the program` }, `×${times}`)
    : null;
}

/** What is moved by all executions together, where there are several: "320 KiB in all". */
export function inAll(cluster: Cluster, once: number): string {
  const times = calls(cluster);
  return times !== null && times > 1 && once ? `${bytes(once * times)} in all` : "";
}

/** How often a loop turns: "5 turns"; empty for what is no loop. */
export function turnWords({ opcode, turns }: Cluster): string {
  if (opcode !== "while") return "";
  return turns === null ? "turns not known" : count(turns, "turn");
}
