/** The ES module: an anywidget (`render`), and `mount` for a page without a kernel. */

import { h } from "./ui/dom";
import { isCompared, mountCompared } from "./compared";
import { type Inspector, addStyles, mountOne } from "./inspector";
import { mountInspector } from "./switched";
import { carried } from "./model/carried";
import { type Model, commOf, noComm } from "./model/comm";
import type { Thing } from "./model/selection";
import type { Store } from "./model/store";

/** Shows an inspection in an element, without a kernel. Returns a function that takes it away. */
export function mount(el: HTMLElement, data: unknown): () => void {
  const shown = isCompared(data) ? mountCompared(el, data) : mountInspector(el, data, noComm);
  return () => shown.dispose();
}

/** What a model shows, and what of it another takes over in its place. */
interface Shown {
  renew(given: unknown): boolean;
  tab(): string | undefined;
  dispose(): void;
  store?: Store;
  select?(thing: Thing): void;
}

const isEmpty = (given: unknown): boolean => Object.keys(given ?? {}).length === 0;

/** What stands there until the kernel has worked the rest out: how far it is, above what was recorded if that is large. */
function waiting(el: HTMLElement, model: Model): Shown {
  const words = h("div.reading", { role: "status" });
  const tell = () => void (words.textContent = String(model.get("working") || "Reading what XLA did …"));
  const place = h("div", {});
  place.className = "lazynb-inspector";
  let graph: Inspector | null = null;
  const draw = () => {
    const recorded = model.get("recorded");
    if (graph || isEmpty(recorded)) return;
    graph = mountOne(el, recorded, noComm, "Graph", words);
    place.remove();
  };
  addStyles(el);
  tell();
  place.append(words);
  el.append(place);
  draw();
  model.on("change:working", tell);
  model.on("change:recorded", draw);
  return {
    renew: () => false,
    tab: () => undefined,
    get store() {
      return graph?.store;
    },
    dispose() {
      model.off("change:working", tell);
      model.off("change:recorded", draw);
      graph?.dispose();
      place.remove();
    },
  };
}

/** Whether the page has the state of the widgets and no kernel: the widget of the layout, which comes whole, tells. */
const isSaved = (model: Model): boolean => (model.get("layout") as { comm_live?: unknown } | undefined)?.comm_live === false;

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const saved = isSaved(model);
  const comm = saved ? noComm : commOf(model);
  const asked = model.get("show"); // `--show`: the first of these tabs is opened
  const first = Array.isArray(asked) && asked.length ? String(asked[0]) : undefined;
  const given = () => {
    const data = model.get("data");
    return saved && !isEmpty(data) ? { ...(data as object), live: false } : data;
  };
  const show = (tab = first): Shown => {
    const data = given();
    if (isCompared(data)) return mountCompared(el, data, tab);
    return isEmpty(data) ? waiting(el, model) : mountInspector(el, data, comm, tab);
  };
  let shown = show();
  const renew = () => {
    if (shown.renew(given())) return;
    const { store } = shown;
    const tab = shown.tab();
    shown.dispose();
    shown = show(tab);
    const thing = store && shown.store ? carried(store, shown.store) : null;
    if (thing) shown.select?.(thing);
  };
  model.on("change:data", renew);
  return () => {
    model.off("change:data", renew);
    comm.dispose();
    shown.dispose();
  };
}

export default { render };
