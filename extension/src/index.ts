/** The ES module: an anywidget (`render`), and `mount` for a page without a kernel. */

import { h } from "./ui/dom";
import { isCompared, mountCompared } from "./compared";
import { mountInspector } from "./switched";
import { type Model, commOf, noComm } from "./model/comm";

/** Shows an inspection in an element, without a kernel. Returns a function that takes it away. */
export function mount(el: HTMLElement, data: unknown): () => void {
  const shown = isCompared(data) ? mountCompared(el, data) : mountInspector(el, data, noComm);
  return () => shown.dispose();
}

/** What stands there until the kernel, which first gives the value, has worked the rest out: how far it is. */
function waiting(el: HTMLElement, model: Model): { renew(): boolean; tab(): undefined; dispose(): void } {
  const shown = h("div.lazynb-inspector", { role: "status", style: "padding: .6em 1em; opacity: .75" });
  const tell = () => void (shown.textContent = String(model.get("working") || "Reading what XLA did …"));
  tell();
  el.append(shown);
  model.on("change:working", tell);
  const dispose = () => {
    model.off("change:working", tell);
    shown.remove();
  };
  return { renew: () => false, tab: () => undefined, dispose };
}

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const comm = commOf(model);
  const asked = model.get("show"); // `--show`: the first of these tabs is opened
  const first = Array.isArray(asked) && asked.length ? String(asked[0]) : undefined;
  const show = (tab = first) => {
    const data = model.get("data");
    if (isCompared(data)) return mountCompared(el, data, tab);
    return Object.keys(data ?? {}).length ? mountInspector(el, data, comm, tab) : waiting(el, model);
  };
  let shown = show();
  const renew = () => {
    if (shown.renew(model.get("data"))) return;
    const tab = shown.tab();
    shown.dispose();
    shown = show(tab);
  };
  model.on("change:data", renew);
  return () => {
    model.off("change:data", renew);
    comm.dispose();
    shown.dispose();
  };
}

export default { render };
