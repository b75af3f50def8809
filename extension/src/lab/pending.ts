/** What stands above the drawing of a pending value: what reading it runs, and buttons that do, while its kernel knows it. */

import { seconds } from "../model/format";
import { fill, h } from "../ui/dom";
import type { Link } from "./link";
import type { Value } from "./messages";
import { BUSY, SLOW, linkAt, onChange } from "./nearby";
import { commOver } from "./over";

export interface Given {
  /** The key of the value; none in what was stored by an older version. */
  key?: unknown;
  hint?: unknown;
  outlook?: { text?: unknown } | null;
}

const textOf = (given: unknown): string => (typeof given === "string" ? given : "");

export class PendingBar {
  readonly element: HTMLElement;
  private readonly words = h("span.ahead-words", {});
  private readonly news = h("span.muted", { role: "status" });
  private readonly buttons = h("span.ahead-buttons", {});
  private readonly run = this.button("Run", "Run what this value needs, and show it here", () => void this.act("run"));
  private readonly compile = this.button(
    "Compile",
    "Compile what this value needs, run nothing, and show the inspector below",
    () => void this.act("compile"),
  );
  private readonly key: string;
  private readonly stored: string;
  private readonly hint: string;
  private readonly watch: IntersectionObserver;
  private readonly stop: () => void;
  private inSight = false;
  private asked: { link: Link; state: unknown } | null = null;
  private acting = false;
  private ended = false;
  private inspector: { dispose(): void } | null = null;

  /** `show` puts something in the place of the drawing; `below` is where the inspector goes. */
  constructor(
    given: Given,
    private readonly show: (value: HTMLElement) => void,
    private readonly below: HTMLElement,
  ) {
    this.key = textOf(given.key);
    this.stored = textOf(given.outlook?.text);
    this.hint = textOf(given.hint);
    this.element = h(
      "div.ahead",
      { role: "group", "aria-label": "how to get this value", hidden: !this.stored },
      this.words,
      this.buttons,
      this.news,
    );
    this.offline();
    this.watch = new IntersectionObserver((entries) => {
      this.inSight = entries[entries.length - 1]?.isIntersecting ?? false;
      this.look();
    });
    if (this.key) this.watch.observe(this.element);
    this.stop = onChange(() => this.look());
  }

  dispose(): void {
    this.ended = true;
    this.watch.disconnect();
    this.stop();
    this.inspector?.dispose();
  }

  private button(label: string, title: string, onclick: () => void): HTMLElement {
    return h("button.ask", { type: "button", title, onclick }, label);
  }

  /** No kernel knows the value: what was stored, and what to type. */
  private offline(): void {
    this.say([this.stored, this.hint].filter(Boolean).join(" "), []);
  }

  private say(words: string, buttons: HTMLElement[]): void {
    if (this.words.textContent !== words) this.words.textContent = words;
    const shown = [...this.buttons.children];
    if (shown.length !== buttons.length || buttons.some((one, i) => one !== shown[i])) fill(this.buttons, ...buttons);
  }

  /** Asks how the value stands, unless nothing happened since. Runs nothing. */
  private look(): void {
    if (!this.key || this.ended || this.acting) return;
    const link = linkAt(this.element);
    if (!link) {
      this.asked = null;
      this.news.textContent = "";
      return this.offline();
    }
    if (!this.inSight || (this.asked?.link === link && this.asked.state === link.state)) return;
    this.asked = { link, state: link.state };
    link
      .ask({ type: "value", key: this.key, do: "look" })
      .then((value) => !this.ended && this.stand(value))
      .catch(() => !this.ended && this.offline());
  }

  private stand({ state, text }: Value): void {
    if (state === "pending") this.say(text || this.stored, [this.run, this.compile]);
    else if (state === "computed") this.say(text, [this.run]);
    else this.say(text, []);
    this.run.textContent = state === "computed" ? "Show" : "Run";
    this.run.title = state === "computed" ? "Show the value here" : "Run what this value needs, and show it here";
  }

  private async act(what: "run" | "compile"): Promise<void> {
    const link = linkAt(this.element);
    if (this.acting || !link) return;
    this.acting = true;
    for (const one of [this.run, this.compile]) one.setAttribute("aria-disabled", "true");
    this.news.textContent = what === "run" ? "running …" : "compiling …";
    const timer = setTimeout(() => !link.busy && (this.news.textContent = BUSY), SLOW);
    try {
      const value = await link.ask({ type: "value", key: this.key, do: what });
      if (this.ended) return;
      this.news.textContent = "";
      if (value.state === "value") return this.showValue(value);
      this.stand(value);
      if (value.compilation !== null) await this.inspect(link, value.compilation);
    } catch (error) {
      if (!this.ended) this.news.textContent = error instanceof Error ? error.message : String(error);
    } finally {
      clearTimeout(timer);
      this.acting = false;
      for (const one of [this.run, this.compile]) one.removeAttribute("aria-disabled");
      this.look();
    }
  }

  private showValue({ text, seconds: took }: Value): void {
    this.ended = true; // it stays what it is
    const value = h("pre.value", { tabindex: 0, "aria-label": "value" }, text);
    this.show(value);
    this.say(took === null ? "It had been computed before." : `Computed in ${seconds(took)}.`, []);
    value.focus();
  }

  private async inspect(link: Link, compilation: number): Promise<void> {
    const [{ data }, { mountInspector }] = await Promise.all([
      link.ask({ type: "show", view: "compilation", compilation }),
      import("./heavy"),
    ]);
    if (this.ended || data == null) return;
    this.inspector?.dispose();
    this.below.replaceChildren();
    this.inspector = mountInspector(this.below, data, commOver(link, compilation));
    this.news.textContent = "Compiled; the inspector is below. Nothing was run.";
  }
}
