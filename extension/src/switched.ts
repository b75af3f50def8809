/** One inspector for two programs: lazynb's, and that of `jax.jit`, with a switch between them at its top. */

import { mountCompared } from "./compared";
import { type Inspector, mountOne } from "./inspector";
import type { Comm } from "./model/comm";
import type { Compared, Request } from "./model/data";
import { other as readOther } from "./model/read";
import { carried } from "./model/carried";
import { h } from "./ui/dom";
import { COMPARED } from "./views/findings";

const PAGE = "This saved page has lazynb's program alone. In a notebook, the switch compiles the other one.";

/** Asks about the other program. */
const aboutOther = (comm: Comm): Comm => ({
  ...comm,
  ask: (request, expected) => comm.ask({ ...request, ...{ of: "other" } } as Request, expected),
});

export function mountInspector(el: HTMLElement, given: unknown, comm: Comm, firstTab = "Graph"): Inspector {
  const figures = [h("span.figures"), h("span.figures")];
  const sides = ["lazynb's program", "as jax.jit"].map((title, i) =>
    h("button.side", { type: "button", role: "radio", onclick: () => void choose(i) }, title, figures[i]),
  );
  const state = h("span.ask-state", { role: "status" });
  const top = h("div.switch", { role: "radiogroup", "aria-label": "Which program" }, ...sides, state);
  const own = mountOne(el, given, comm, firstTab, top);
  const shown: (Inspector | null)[] = [own, null];
  const below = experiments(el);
  let at = 0;
  let timer: ReturnType<typeof setInterval> | undefined;

  const current = (): Inspector => shown[at] ?? own;

  function paint(): void {
    const { other } = own.store.data;
    top.hidden = !other;
    const words = other ? [other.own, other.figures || (other.why ? "none" : "not compiled yet")] : ["", ""];
    sides.forEach((side, i) => {
      side.setAttribute("aria-checked", String(i === at));
      side.setAttribute("tabindex", i === at ? "0" : "-1");
      (figures[i] as HTMLElement).textContent = words[i] ?? "";
    });
  }

  function say(text: string, kind = ""): void {
    state.className = `lz-ask-state${kind && ` lz-${kind}`}`;
    state.textContent = text;
  }

  /** The other program, compiled if it is not there; what cannot be had is an error. */
  async function compiled(): Promise<Inspector> {
    const { data } = own.store;
    if (data.other && !data.other.inspection && !data.other.why && data.live) {
      const began = Date.now();
      const tick = () => say(`compiling, running nothing… ${Math.round((Date.now() - began) / 1000)} s`, "waiting");
      timer = setInterval(tick, 1000);
      tick();
      try {
        data.other = readOther((await comm.ask({ type: "other" }, "other")).other);
      } finally {
        clearInterval(timer);
        timer = undefined;
        say("");
      }
    }
    if (!data.other?.inspection) throw new Error(data.other?.why ? `There is no such program: ${data.other.why}` : PAGE);
    return mountOne(el, data.other.inspection, aboutOther(comm), own.tab());
  }

  async function choose(side: number): Promise<void> {
    if (side === at || timer !== undefined) return;
    say("");
    try {
      shown[side] ??= await compiled();
    } catch (error) {
      say(error instanceof Error ? error.message : String(error), "error");
      return paint();
    }
    show(side);
  }

  function show(side: number): void {
    const from = current();
    const focused = top.contains((top.getRootNode() as Document | ShadowRoot).activeElement);
    at = side;
    const to = current();
    const thing = carried(from.store, to.store);
    from.element.hidden = true;
    to.element.hidden = false;
    to.element.prepend(top);
    to.open(from.tab());
    paint();
    if (thing) to.select(thing);
    else to.store.clear();
    if (focused) sides[at]?.focus();
  }

  top.addEventListener("keydown", (event) => {
    if (!["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].includes(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    void choose(1 - at);
  });
  paint();

  return {
    ...own,
    get element() {
      return current().element;
    },
    get store() {
      return current().store;
    },
    tab: () => current().tab(),
    open: (tab) => current().open(tab),
    renew(later) {
      if (!own.renew(later)) return false;
      const data = own.store.data.other?.inspection;
      if (shown[1] && !(data && shown[1].renew(data))) return false;
      paint();
      return true;
    },
    select: (thing) => current().select(thing),
    dispose() {
      clearInterval(timer);
      for (const one of shown) one?.dispose();
      below.dispose();
    },
  };
}

/** Two programs that an experiment of the inspector compares stand below it, until they are closed. */
function experiments(el: HTMLElement): { dispose(): void } {
  let close = () => {};
  const compare = (event: Event) => {
    close();
    const button = h("button.tool", { type: "button", onclick: () => close() }, "Close the comparison");
    const head = h("div", { class: "lazynb-inspector", style: "display: block; margin: 8px 0; padding: 6px 12px" }, button);
    const place = h("section", { "aria-label": "Both programs" }, head);
    el.append(place);
    const pair = mountCompared(place, (event as CustomEvent<Compared>).detail, "Fusion");
    place.scrollIntoView({ block: "nearest" });
    close = () => {
      pair.dispose();
      place.remove();
      close = () => {};
    };
  };
  el.addEventListener(COMPARED, compare);
  return {
    dispose() {
      el.removeEventListener(COMPARED, compare);
      close();
    },
  };
}
