/** The inspector: header, tabs, the source beside the view, and what is pointed at in words. */

import { Questions } from "./ui/asking";
import { fill, h } from "./ui/dom";
import { fillFoot } from "./ui/foot";
import { header } from "./ui/header";
import type { Comm } from "./model/comm";
import { kernelsOf } from "./model/program";
import type { Inspection } from "./model/data";
import { read } from "./model/read";
import { keepKeys } from "./ui/shortcuts";
import { Store } from "./model/store";
import styles from "./styles.css";
import type { Thing } from "./model/selection";
import { shareLines } from "./ui/sharing";
import { listen } from "./ui/selectable";
import type { Context, MakeView, View } from "./ui/view";
import { codeView } from "./views/code";
import { collectivesView } from "./views/collectives";
import { costView } from "./views/cost";
import { findingsView } from "./views/findings";
import { fusionView } from "./views/fusion";
import { graphView } from "./views/graph";
import { hloView } from "./views/hlo";
import { memoryView } from "./views/memory";
import { sourceView } from "./views/source";
import { tableView } from "./views/tables";
import { timelineView } from "./views/timeline";

interface Tab {
  name: string;
  make: MakeView;
  /** The source stands beside it. */
  source: boolean;
  /** Whether there is anything to show; without, it is always there. */
  given?: (data: Inspection) => boolean;
}

const ALL: Tab[] = [
  { name: "Graph", make: graphView, source: true },
  { name: "Fusion", make: fusionView, source: true },
  { name: "HLO", make: hloView, source: true },
  { name: "Code", make: codeView, source: true },
  { name: "Cost", make: costView, source: true },
  { name: "Memory", make: memoryView, source: false },
  {
    name: "Collectives",
    make: collectivesView,
    source: false,
    given: ({ collectives, layouts }) => collectives.rows.length + layouts.length > 0,
  },
  {
    name: "Cache",
    make: ({ store }) => tableView(store.data.cache, "The cache of executables was not used.", "cache"),
    source: false,
  },
  {
    name: "Breaks",
    make: ({ store }) => timelineView(store.data.timelines, store.data.breaks, "The trace was never broken.", store),
    source: false,
  },
];

export interface Inspector {
  readonly element: HTMLElement;
  readonly store: Store;
  tab(): string;
  /** Opens a tab. */
  open(tab: string): void;
  /** Shows what became known later, in place; false where it is about another program. */
  renew(given: unknown): boolean;
  /** Selects as a click does. */
  select(thing: Thing): void;
  dispose(): void;
}

/** The style sheet, once for each document or shadow root. */
export function addStyles(el: HTMLElement): void {
  const root = el.getRootNode();
  const place = root instanceof ShadowRoot ? root : el.ownerDocument.head;
  const old = place.querySelector("style[data-lazynb-inspector]");
  if (old?.textContent === styles) return;
  const style = h("style", { "data-lazynb-inspector": true }, styles);
  if (old) old.replaceWith(style);
  else place.append(style);
}

function failed(what: string, error: unknown): View {
  return {
    element: h(
      "div.pane",
      {},
      h("div.empty.failed", { role: "alert" }, `${what} failed: ${error instanceof Error ? error.message : String(error)}`),
    ),
  };
}

/** A view of which no error gets out. */
function guarded(name: string, make: () => View): View {
  try {
    return make();
  } catch (error) {
    console.error(error);
    return failed(`The view ${name}`, error);
  }
}

function attempt(act: (() => void) | undefined): void {
  try {
    act?.();
  } catch (error) {
    console.error(error); // the rest of the inspector goes on
  }
}

/** `top` stands above all; `share` tells others on the page what is selected. */
export function mountOne(
  el: HTMLElement,
  given: unknown,
  comm: Comm,
  firstTab = "Graph",
  top?: HTMLElement,
  share?: (store: Store, signal: AbortSignal) => () => void,
): Inspector {
  const prefix = `lazynb-${Math.random().toString(36).slice(2, 10)}`; // each widget is given a module of its own: nothing to count in
  const ending = new AbortController();
  const { signal } = ending;
  addStyles(el);
  const store = new Store(read(given));
  const questions = new Questions(signal, (busy) => {
    root.classList.toggle("lz-busy", busy);
    panel.setAttribute("aria-busy", String(busy));
  });
  const context: Context = { store, comm, questions, signal };
  const views = new Map<string, View>();
  const TABS = store.data.reading ? ALL.slice(0, 1) : ALL.filter(({ given: has }) => !has || has(store.data));
  let active = TABS.find((tab) => tab.name.toLowerCase() === firstTab.toLowerCase()) ?? (TABS[0] as Tab);

  const source = guarded("source", () => sourceView(context));
  const findings = guarded("findings", () => findingsView(context));
  const panel = h("div.panel", { role: "tabpanel", id: `${prefix}-panel` });
  const errors = h("div.errors", { role: "alert" });
  const buttons = TABS.map((tab) =>
    h(
      "button.tab",
      { type: "button", role: "tab", id: `${prefix}-${tab.name}`, "aria-controls": `${prefix}-panel`, onclick: () => show(tab) },
      tab.name,
      countOf(tab.name),
    ),
  );
  const tabs = h("div.tabs", { role: "tablist", "aria-label": "Views" }, ...buttons);
  const foot = h("div.foot", { "aria-live": "polite" });
  const body = h("div.body", {}, source.element, panel);
  let head = headerOr();
  const root = h("div.root", {}, top, head, findings.element, tabs, errors, body, foot);
  root.className = "lazynb-inspector";

  function headerOr(): HTMLElement {
    return guarded("header", () => ({ element: header(store) })).element;
  }

  function countOf(name: string): HTMLElement | null {
    const { data } = store;
    const n = {
      Fusion: kernelsOf(data.clusters).length,
      Collectives: data.collectives.rows.length,
      Breaks: data.breaks.rows.length,
      Cache: data.cache.rows.length,
    }[name];
    return n ? h("span.count", {}, n.toLocaleString("en")) : null;
  }

  function view(tab: Tab): View {
    const known = views.get(tab.name);
    if (known) return known;
    const made = guarded(tab.name, () => tab.make(context));
    views.set(tab.name, made);
    return made;
  }

  function show(tab: Tab): void {
    active = tab;
    TABS.forEach((one, i) => {
      buttons[i]?.setAttribute("aria-selected", String(one === tab));
      buttons[i]?.setAttribute("tabindex", one === tab ? "0" : "-1");
    });
    panel.setAttribute("aria-labelledby", `${prefix}-${tab.name}`);
    source.element.hidden = !tab.source || !store.data.sources.length;
    const shown = view(tab);
    panel.replaceChildren(shown.element);
    attempt(() => shown.shown?.());
    attempt(() => shown.update?.());
    if (store.stuck) attempt(() => shown.reveal?.());
  }

  function open(name: string): void {
    const tab = TABS.find((one) => one.name === name);
    if (tab && tab !== active) show(tab);
  }

  function update(): void {
    root.classList.toggle("lz-pointing", store.shown !== null);
    attempt(() => source.update?.());
    attempt(() => findings.update?.());
    attempt(() => view(active).update?.());
    tell();
  }

  /** The previewed or selected thing in words. */
  function tell(): void {
    fillFoot(
      foot,
      store,
      "Point at a line, a box, an instruction or a kernel: what belongs to it lights up everywhere. A click keeps it, Escape lets it go.",
    );
  }

  function key(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    const typing = target.matches("input[type=search], textarea, select");
    if (event.key === "Escape") {
      if (target instanceof HTMLInputElement && target.type === "search" && target.value) {
        target.value = "";
        target.dispatchEvent(new window.Event("input"));
      } else store.clear();
    } else if (event.key === "/" && !typing) {
      if (!view(active).search) show(TABS[2] as Tab);
      view(active).search?.();
    } else if (target.getAttribute("role") === "tab") {
      const at = buttons.indexOf(target as HTMLButtonElement);
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: TABS.length - 1 }[event.key];
      const next = to === undefined ? undefined : (to + TABS.length) % TABS.length;
      if (next === undefined) return;
      show(TABS[next] as Tab);
      buttons[next]?.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  root.addEventListener("keydown", key, { signal });
  keepKeys(root, signal);
  const stopListening = listen(root, store);
  const off = [
    store.on("selection", update),
    store.on("figures", tell),
    store.on("stuck", () => {
      if (!store.stuck) return;
      attempt(() => source.reveal?.());
      attempt(() => view(active).reveal?.());
    }),
    comm.onError((message) =>
      fill(errors, message, h("button.tool", { type: "button", "aria-label": "Dismiss", onclick: () => fill(errors) }, "×")),
    ),
  ];
  const stopSharing = share?.(store, signal) ?? shareLines(store, signal, false, root, open);
  const version = (given as { version?: unknown } | null)?.version;
  if (version !== undefined && version !== 1)
    fill(errors, `This was made by another version of lazynb (format ${String(version)}); some of it may be missing.`);
  el.append(root);
  show(active);
  tell();

  return {
    element: root,
    store,
    tab: () => active.name,
    open,
    renew(later) {
      if (!store.renew(read(later))) return false;
      head.replaceWith((head = headerOr()));
      for (const name of ["Cache", "Breaks"]) views.delete(name);
      if (!views.has(active.name)) show(active);
      update();
      return true;
    },
    select: (thing) => store.stick(thing),
    dispose() {
      ending.abort();
      stopListening();
      stopSharing();
      for (const stop of off) stop();
      for (const one of views.values()) attempt(() => one.dispose?.());
      root.remove();
    },
  };
}
