/** The item in the status bar: figures, and what is being compiled. */

import { Widget } from "@lumino/widgets";
import { fill, h } from "../ui/dom";
import type { Links } from "./links";
import { Ticker } from "./ticker";
import { compilingWords, elapsed, figures } from "./words";

export class Status extends Widget {
  private readonly ticker = new Ticker(() => this.draw());
  private readonly button: HTMLElement;
  private drawn = "";

  constructor(
    private readonly links: Links,
    open: () => void,
  ) {
    super();
    this.addClass("lazynb-status");
    this.button = h("button", { type: "button", onclick: open });
    this.node.append(this.button);
    links.changed.connect(this.draw, this);
    this.draw();
  }

  /** Whether there is anything to say here. */
  get active(): boolean {
    return !!this.links.current?.state || !!this.links.current?.busy;
  }

  override dispose(): void {
    this.links.changed.disconnect(this.draw, this);
    this.ticker.run(false);
    super.dispose();
  }

  private draw(): void {
    const link = this.links.current;
    const busy = link?.busy ?? null;
    const state = link?.state ?? null;
    const now = Date.now();
    this.ticker.run(busy !== null);
    const slow = busy && elapsed(busy, now) >= 1 ? compilingWords(busy, now) : "";
    const key = JSON.stringify([state, slow]);
    if (key === this.drawn) return;
    this.drawn = key;
    this.node.hidden = !state && !slow;
    this.toggleClass("lazynb-mod-busy", slow !== "");
    const text = slow || (state?.text ?? "");
    this.button.title = text;
    this.button.setAttribute("aria-label", `lazynb: ${text}. Show the panel`);
    if (slow) return fill(this.button, h("span.spin", { "aria-hidden": "true" }), slow);
    if (!state) return fill(this.button);
    fill(
      this.button,
      h("span.mode", {}, state.lazy ? "lazy" : "eager"),
      ...figures(state).map(({ name, value, title }) => h(`span.figure`, { title }, h("b", {}, value), ` ${name}`)),
    );
  }
}
