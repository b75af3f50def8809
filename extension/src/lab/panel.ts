/** The side panel: four views of the kernel of the notebook that has the focus, asked for when they can be seen and have changed. */

import type { INotebookTracker } from "@jupyterlab/notebook";
import type { Message } from "@lumino/messaging";
import { Widget } from "@lumino/widgets";
import type { Table } from "../model/data";
import { fill, h } from "../ui/dom";
import type { Inspector } from "../inspector";
import type { Link } from "./link";
import type { Links } from "./links";
import { marksLegend } from "./legend";
import type { Panel as Shown, State } from "./messages";
import { BUSY, SLOW } from "./nearby";
import { commOver } from "./over";

export type ViewName = "graph" | "breaks" | "cache" | "compilation";

const VIEWS: { name: ViewName; title: string; label: string }[] = [
  { name: "graph", title: "Pending", label: "Pending graph" },
  { name: "breaks", title: "Breaks", label: "Trace breaks" },
  { name: "cache", title: "Cache", label: "Cache of executables" },
  { name: "compilation", title: "Compilation", label: "Last compilation" },
];

const NO_NOTEBOOK = "Open a notebook to see what lazynb holds for its kernel.";
const NOT_LOADED = ["lazynb is not loaded in this notebook's kernel. Run ", h("code", {}, "%load_ext lazynb"), " in a cell."];
const EMPTY: Record<ViewName, string> = {
  graph: "Nothing is pending: every result has been computed.",
  breaks: "The trace was never broken.",
  cache: "There are no executables yet: nothing was compiled.",
  compilation: "Nothing was compiled yet.",
};

/** What stands in the panel now. */
interface Content {
  link: Link;
  state: State | null;
  view: ViewName;
  /** Of what is shown, to keep it where nothing changed. */
  key: string;
  compilation: number | null;
  inspector: Inspector | null;
  dispose(): void;
}

export class SidePanel extends Widget {
  private active: ViewName = "graph";
  /** Which compilation, where not the last; and what to select in it. */
  private wanted: { compilation: number | null; cluster: number } | null = null;
  /** The timeline that was looked at last. */
  private timeline = "";
  private content: Content | null = null;
  private asking = false;
  private readonly tabs: HTMLButtonElement[];
  private readonly line = h("p.state", { role: "status" });
  private readonly news = h("p.news", { role: "status", hidden: true });
  private readonly body: HTMLElement;

  constructor(
    private readonly links: Links,
    private readonly tracker: INotebookTracker,
  ) {
    super();
    this.id = "lazynb-panel";
    this.addClass("lazynb-panel");
    this.title.caption = "lazynb";
    this.body = h("div.view", { role: "tabpanel", id: "lazynb-panel-view", tabindex: 0 });
    this.tabs = VIEWS.map(({ name, title }) =>
      h(
        "button.tab",
        {
          type: "button",
          role: "tab",
          id: `lazynb-tab-${name}`,
          "aria-controls": "lazynb-panel-view",
          onclick: () => this.open(name),
        },
        title,
      ),
    );
    const list = h(
      "div.tabs",
      { role: "tablist", "aria-label": "lazynb's views", onkeydown: (event: KeyboardEvent) => this.key(event) },
      ...this.tabs,
    );
    this.node.append(h("div.top", {}, h("h2.name", {}, "lazynb"), this.line), list, this.news, this.body, marksLegend());
    this.paintTabs();
    links.changed.connect(this.refresh, this);
  }

  /** Brings a view to the front. */
  open(view: ViewName): void {
    this.wanted = null;
    this.turnTo(view);
  }

  /** Shows a kernel of a compilation in the inspector. */
  choose(compilation: number | null, cluster: number): void {
    this.wanted = { compilation, cluster };
    this.turnTo("compilation");
  }

  override dispose(): void {
    this.links.changed.disconnect(this.refresh, this);
    this.empty();
    super.dispose();
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.refresh();
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this.refresh();
  }

  protected override onActivateRequest(): void {
    this.tabs[VIEWS.findIndex(({ name }) => name === this.active)]?.focus();
  }

  private turnTo(view: ViewName): void {
    this.active = view;
    this.paintTabs();
    if (!this.isCurrent(this.links.current)) void this.load();
  }

  /** Whether what stands here is what is to stand here. */
  private isCurrent(link: Link | null): boolean {
    const { content } = this;
    return !!content && content.link === link && content.state === link?.state && content.view === this.active && !this.wanted;
  }

  private paintTabs(): void {
    VIEWS.forEach(({ name, label }, i) => {
      this.tabs[i]?.setAttribute("aria-selected", String(name === this.active));
      this.tabs[i]?.setAttribute("tabindex", name === this.active ? "0" : "-1");
      if (name === this.active) this.body.setAttribute("aria-label", label);
    });
  }

  private key(event: KeyboardEvent): void {
    const at = VIEWS.findIndex(({ name }) => name === this.active);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: VIEWS.length - 1 }[event.key];
    if (to === undefined) return;
    const next = (to + VIEWS.length) % VIEWS.length;
    event.preventDefault();
    this.open((VIEWS[next] as (typeof VIEWS)[number]).name);
    this.tabs[next]?.focus();
  }

  /** Something changed, perhaps what is shown here. */
  private refresh(): void {
    const link = this.links.current;
    const text = link?.state?.text ?? "";
    if (this.line.textContent !== text) this.line.textContent = text;
    if (!this.isVisible) return;
    if (!this.isCurrent(link)) void this.load();
  }

  private async load(): Promise<void> {
    const link = this.links.current;
    if (!link?.alive) {
      this.tell("");
      this.empty();
      this.message(...(this.tracker.currentWidget ? NOT_LOADED : [NO_NOTEBOOK]));
      return;
    }
    if (this.asking || !this.isVisible) return; // what is asked for comes first; then it is looked again
    this.asking = true;
    const { active: view, wanted } = this;
    const { state } = link;
    const timer = setTimeout(() => this.tell(BUSY), SLOW);
    try {
      const asked = link.ask({ type: "show", view, ...(wanted?.compilation != null && { compilation: wanted.compilation }) });
      const [shown, heavy] = await Promise.all([asked, import("./heavy")]);
      const late =
        this.isDisposed || this.links.current !== link || this.active !== view || (this.wanted && this.wanted !== wanted);
      if (!late) {
        this.tell("");
        this.put(link, state, view, shown, heavy);
        if (view === "compilation" && wanted) this.select(wanted);
      }
    } catch (error) {
      this.tell("");
      if (this.wanted === wanted) this.wanted = null;
      this.empty();
      this.message(error instanceof Error ? error.message : String(error));
      this.content = { link, state, view, key: "", compilation: null, inspector: null, dispose() {} };
    } finally {
      clearTimeout(timer);
      this.asking = false;
    }
    if (!this.isDisposed && this.isVisible && !this.isCurrent(this.links.current)) void this.load();
  }

  private put(
    link: Link,
    state: State | null,
    view: ViewName,
    { data, text, compilation: number }: Shown,
    heavy: typeof import("./heavy"),
  ): void {
    const key = `${link.kernel} ${view} ${JSON.stringify(data)}`;
    const compilation = number ?? state?.compilation ?? null;
    const { content } = this;
    if (content && data != null && content.link === link && content.view === view) {
      const same = content.key === key || (content.compilation === compilation && content.inspector?.renew(data));
      if (same) return void Object.assign(content, { state, key });
    }
    const tab = content?.inspector?.tab();
    const { scrollTop } = this.body;
    this.empty();
    const made: Content = { link, state, view, key, compilation, inspector: null, dispose() {} };
    this.content = made;
    if (data == null) return this.message(text || EMPTY[view]);
    if (view === "graph") {
      made.dispose = () => picture.dispose();
      const picture = heavy.mountGraph(this.body, data, true);
    } else if (view === "compilation") {
      made.inspector = heavy.mountInspector(this.body, data, commOver(link, compilation ?? -1), tab);
      made.dispose = () => made.inspector?.dispose();
    } else {
      const table = { nodes: [], places: [], ...(data as Omit<Table, "nodes" | "places">) };
      if (!table.rows.length) return this.message(table.text || EMPTY[view]);
      const root = h("div", {}, h("div.panel.listed", {}, this.listOf(view, table, heavy)));
      root.className = "lazynb-inspector";
      heavy.addStyles(this.body);
      this.body.append(root);
    }
    this.body.scrollTop = scrollTop;
  }

  private listOf(view: "breaks" | "cache", table: Table, heavy: typeof import("./heavy")): HTMLElement {
    if (view === "cache") return heavy.tableView(table, EMPTY[view], "executables").element;
    const given = heavy.timelines((table as { timelines?: unknown }).timelines);
    const made = heavy.timelineView(given, table, EMPTY[view], undefined, this.timeline);
    made.element.addEventListener("click", () => (this.timeline = made.name()));
    return made.element;
  }

  private select({ compilation, cluster }: { compilation: number | null; cluster: number }): void {
    this.wanted = null;
    if (this.content?.inspector && (compilation === null || this.content.compilation === compilation))
      this.content.inspector.select({ kind: "cluster", id: cluster });
    else if (this.content?.inspector)
      this.tell("This line ran in an earlier compilation, which is no longer kept. This is the last one.");
  }

  private tell(words: string): void {
    this.news.textContent = words;
    this.news.hidden = !words;
  }

  private message(...words: (string | Node)[]): void {
    fill(this.body, h("div.words", {}, h("p", {}, ...words.map((one) => (typeof one === "string" ? one : one.cloneNode(true))))));
  }

  private empty(): void {
    this.content?.dispose();
    this.content = null;
    this.body.replaceChildren();
  }
}
