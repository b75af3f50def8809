/** A compilation that takes more than a second shows on its cell: a thin line, and what compiles for how long. */

import { h } from "../ui/dom";
import type { Links } from "./links";
import { Ticker } from "./ticker";
import { compilingWords, elapsed } from "./words";

export class Progress {
  private readonly ticker = new Ticker(() => this.draw());
  /** By kernel. */
  private readonly shown = new Map<string, { cell: string; elements: HTMLElement[] }>();

  constructor(private readonly links: Links) {
    links.changed.connect(this.draw, this);
  }

  private draw(): void {
    const now = Date.now();
    const { all } = this.links;
    this.ticker.run(all.some(({ busy }) => busy));
    const wanted = new Set(all.filter(({ busy }) => busy?.cell && elapsed(busy, now) >= 1).map(({ kernel }) => kernel));
    for (const [kernel, { cell, elements }] of this.shown) {
      if (wanted.has(kernel) && all.find((link) => link.kernel === kernel)?.busy?.cell === cell) continue;
      for (const element of elements) element.remove();
      this.shown.delete(kernel);
    }
    for (const { kernel, busy } of all) {
      if (!busy?.cell || !wanted.has(kernel)) continue;
      const { elements } = this.shown.get(kernel) ?? this.put(kernel, busy.cell);
      for (const element of elements) (element.lastElementChild as HTMLElement).textContent = compilingWords(busy, now);
    }
  }

  private put(kernel: string, cell: string): { cell: string; elements: HTMLElement[] } {
    const widgets = this.links
      .panelsOf(kernel)
      .flatMap(({ content }) => content.widgets.filter(({ model }) => model.id === cell));
    const elements = widgets.map(({ node }) => {
      const element = h("div", { "aria-hidden": "true" }, h("div.line"), h("div.words")); // the status bar says it aloud
      element.className = "lazynb-progress";
      (node.querySelector(".jp-Cell-inputWrapper") ?? node).append(element);
      return element;
    });
    const made = { cell, elements };
    this.shown.set(kernel, made);
    return made;
  }
}
