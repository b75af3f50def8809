/** What one pass did, instruction by instruction. */

import type { Change, PassInfo } from "../model/data";
import { changes as readChanges } from "../model/read";
import type { Question } from "../ui/asking";
import type { Context } from "../ui/view";
import { h } from "../ui/dom";
import { placeTitle, placeWords } from "../model/program";
import { chips } from "../ui/palette";
import type { Store } from "../model/store";
import { light, tag } from "../ui/selectable";
import { difference } from "../model/difference";
import { type Words, hloText } from "./hlotext";
import { nodeTitle } from "../model/words";

const PAGE = 150;
const SIGNS: Record<Change["kind"], string> = { added: "+", removed: "−", rewritten: "~", fused: "⊕" };

/** The question for what a pass changed; `known` is called when it is there. */
export const changesQuestion = (
  program: number,
  pass: PassInfo,
  label: string,
  { comm }: Context,
  known: () => void,
): Question => ({
  key: `pass:${program}:${pass.index}`,
  label,
  title: "Ask the kernel for the changes of this pass",
  doing: "asking the kernel",
  ask: async () => {
    const answer = await comm.ask({ type: "pass", program, index: pass.index }, "pass");
    pass.changes = readChanges(answer.changes);
    for (const kind of ["added", "removed", "rewritten", "fused"] as const) {
      pass[kind] ??= pass.changes.filter((change) => change.kind === kind).length;
    }
    known();
    return "";
  },
});

export function changeList(all: readonly Change[], query: string, store: Store, signal: AbortSignal): HTMLElement {
  const list = h("div.scroll.changes", { tabindex: 0, role: "list", "aria-label": "changes of this pass" });
  const kept = query
    ? all.filter((change) => `${change.name} ${change.before} ${change.after} ${change.into}`.toLowerCase().includes(query))
    : all;
  if (!kept.length)
    list.append(
      h("div.empty", {}, all.length ? "No change of this pass has that text." : "This pass changed nothing that is listed."),
    );
  let shown = 0;
  const more = h("button.more-button", { type: "button" });
  const extend = () => {
    more.remove();
    for (const change of kept.slice(shown, shown + PAGE)) list.append(row(change, query, store));
    shown = Math.min(kept.length, shown + PAGE);
    if (shown < kept.length) {
      more.textContent = `Show ${Math.min(PAGE, kept.length - shown)} of ${kept.length - shown} more changes`;
      list.append(more);
    }
    light(list, store);
  };
  more.addEventListener("click", extend, { signal });
  extend();
  return list;
}

function row(change: Change, query: string, store: Store): HTMLElement {
  const [before, after] = [change.before.trim(), change.after.trim()];
  const differing = before && after ? difference(before, after) : { before: [], after: [] };
  const side = (sign: string, text: string, kind: string, words?: Words) =>
    text
      ? h(`div.version.version-${kind}`, {}, h("span.sign", { "aria-hidden": "true" }, sign), hloText({ text }, query, words))
      : null;
  const clusters = [...new Set(change.nodes.flatMap((id) => store.relations.clustersOf(id)))];
  const written = change.nodes.slice(0, 5).flatMap((id) => {
    const node = store.relations.nodes.get(id);
    return node
      ? [
          tag(
            h(
              "span.member",
              { title: placeTitle(node.place) },
              nodeTitle(node),
              h("span.muted", {}, ` ${placeWords(node.place)}`),
            ),
            { kind: "node", id },
          ),
        ]
      : [];
  });
  const made = h(
    "div.change",
    {},
    h(
      "div.card-head",
      {},
      h(`span.tally.tally-${change.kind}`, {}, `${SIGNS[change.kind] ?? "~"} ${change.kind}`),
      h("code.change-name", { title: change.name }, change.name),
      change.into ? h("span.muted", {}, "into ", h("code", {}, change.into)) : null,
      h("span.spring", {}),
      ...written,
      change.nodes.length > 5 ? h("span.muted", {}, `+${change.nodes.length - 5}`) : null,
      clusters.length ? chips(clusters, store.relations, 3) : null,
    ),
    change.kind === "fused" ? side("⊕", before, "fused") : side("−", before, "before", { tag: "del", ranges: differing.before }),
    side("+", after, "after", { tag: "ins", ranges: differing.after }),
  );
  const line = { text: change.after || change.before, name: change.name, nodes: change.nodes, cluster: null, computation: "" };
  return tag(made, { kind: "instruction", program: store.program, line });
}
