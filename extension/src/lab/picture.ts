/** A graph without a kernel: drawn, zoomed, opened and read from its data alone. */

import { Questions } from "../ui/asking";
import { h } from "../ui/dom";
import { fillFoot } from "../ui/foot";
import { noComm } from "../model/comm";
import { keepKeys } from "../ui/shortcuts";
import { Store } from "../model/store";
import { addStyles } from "../inspector";
import { listen } from "../ui/selectable";
import { graphView } from "../views/graph";
import { inspectionOf, isGraph } from "./graphdata";
import { type Given, PendingBar } from "./pending";

export interface Picture {
  dispose(): void;
}

/** Room for the toolbar, the legend and a margin. */
const AROUND = 104;

/** Draws a graph's MIME data in an element. Throws on data that it does not know. */
export function mountGraph(el: HTMLElement, given: unknown, fills = false): Picture {
  if (!isGraph(given)) throw new Error("not a graph that this version of lazynb can draw");
  const ending = new AbortController();
  const { signal } = ending;
  addStyles(el);
  const data = inspectionOf(given);
  const store = new Store(data);
  const view = graphView({ store, comm: noComm, questions: new Questions(signal, () => {}), signal });
  const foot = h("div.foot", { "aria-live": "polite" });
  const body = h("div.body", {}, h("div.panel", {}, view.element));
  const toolbar = view.element.querySelector(".lz-toolbar");
  if (data.title) toolbar?.prepend(h("h2.title", { title: data.title }, data.title));
  toolbar?.querySelector(".lz-spring")?.before(h("span.muted", {}, besides(given)));
  const below = h("div.below", {});
  const bar = new PendingBar(
    given as Given,
    (value) => {
      body.replaceWith(value);
      foot.remove();
      root.classList.add("lz-computed");
    },
    below,
  );
  const root = h("div", {}, bar.element, body, foot);
  root.className = "lazynb-inspector lazynb-picture";
  const tell = () => {
    view.update?.();
    root.classList.toggle("lz-pointing", store.shown !== null);
    foot.classList.toggle("lz-idle", !store.shown);
    fillFoot(foot, store, "Point at a box for its types and its line.");
  };
  root.addEventListener("keydown", (event) => event.key === "Escape" && store.clear(), { signal });
  keepKeys(root, signal);
  const stop = listen(root, store);
  const off = store.on("selection", tell);
  el.append(root, below);
  const height = Number.parseFloat(root.querySelector<HTMLElement>(".lz-scene")?.style.height ?? "0");
  if (!fills) root.style.setProperty("--lz-body", `clamp(120px, ${Math.ceil(height) + AROUND}px, min(70vh, 760px))`);
  tell();
  view.shown?.();
  return {
    dispose() {
      ending.abort();
      stop();
      off();
      bar.dispose();
      view.dispose?.();
      root.remove();
      below.remove();
    },
  };
}

/** What the drawing does not tell. */
function besides(given: Record<string, unknown>): string {
  const counts = (given.counts ?? {}) as Record<string, number | undefined>;
  const n = (x: unknown) => Number(x).toLocaleString("en");
  const said = [
    counts.dead ? `${n(counts.dead)} unused` : "",
    Number(given.hidden) ? `${n(given.hidden)} hidden` : "",
    Number(given.nodes_left_out) ? `of ${n(counts.operations ?? 0)} operations: too many to list` : "",
  ];
  return said.filter(Boolean).join(" · ");
}
