/** The card of a line: its kernels, what became of its operations, its trace breaks. One a page. */

import { h, prose } from "../ui/dom";
import { look, paint } from "../ui/palette";
import type { Break, Kernel, Line } from "./messages";
import { costOf, inBrief, legendOf } from "./words";

export interface Choices {
  kernel(id: number): void;
  breaks(): void;
}

const SOON = 120; // ms until it comes
const LATE = 220; // and until it goes: time to reach it

export class Card {
  private element: HTMLElement | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private back: (() => void) | null = null;

  /** After a moment, unless the pointer leaves before. */
  soon(anchor: Element, line: Line, choices: Choices): void {
    if (this.back) return; // opened by key: it stays
    clearTimeout(this.timer);
    this.timer = setTimeout(() => anchor.isConnected && this.show(anchor.getBoundingClientRect(), line, choices), SOON);
  }

  leave(): void {
    if (this.back) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.hide(), LATE);
  }

  /** At once and with the focus in it; `back` gives it back. */
  focus(anchor: DOMRect, line: Line, choices: Choices, back: () => void): void {
    clearTimeout(this.timer);
    this.show(anchor, line, choices);
    this.back = back;
    (this.element?.querySelector("button") ?? this.element)?.focus();
  }

  hide(): void {
    clearTimeout(this.timer);
    const { back } = this;
    this.back = null;
    this.element?.remove();
    this.element = null;
    back?.();
  }

  private show(at: DOMRect, line: Line, choices: Choices): void {
    this.element?.remove();
    const act = (does: () => void) => () => {
      this.hide();
      does();
    };
    const legend = legendOf(line);
    const made = h(
      "div",
      {
        role: "dialog",
        "aria-label": `lazynb, ${inBrief(line)}`,
        tabindex: -1,
        onkeydown: (event: KeyboardEvent) => this.key(event),
      },
      ...line.kernels.flatMap((one, i) => [
        one.heading && one.heading !== line.kernels[i - 1]?.heading ? h("p.program", {}, one.heading) : "",
        kernelRow(
          one,
          act(() => choices.kernel(one.id)),
        ),
      ]),
      line.fates.length ? h("ul.fates", {}, ...line.fates.map((fate) => h("li", {}, fate))) : null,
      ...line.breaks.map((one) => breakRow(one, act(choices.breaks))),
      legend ? h("p.legend", {}, legend) : null,
    );
    made.className = "lazynb-card";
    made.addEventListener("pointerenter", () => clearTimeout(this.timer));
    made.addEventListener("pointerleave", () => this.leave());
    made.addEventListener("focusout", (event) => {
      if (this.back && !made.contains(event.relatedTarget as globalThis.Node | null)) {
        this.back = null; // the focus went elsewhere on purpose
        this.hide();
      }
    });
    document.body.append(made);
    const { width, height } = made.getBoundingClientRect();
    const below = at.bottom + 6 + height < window.innerHeight;
    made.style.left = `${Math.max(8, Math.min(at.left, window.innerWidth - width - 8))}px`;
    made.style.top = `${Math.max(8, below ? at.bottom + 6 : at.top - height - 6)}px`;
    this.element = made;
  }

  private key(event: KeyboardEvent): void {
    const buttons = [...(this.element?.querySelectorAll("button") ?? [])];
    const at = buttons.indexOf(document.activeElement as HTMLButtonElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (event.key === "Escape") this.hide();
    else if (to !== undefined) buttons[(to + buttons.length) % buttons.length]?.focus();
    else if (event.key !== "Tab" && event.key !== "Enter" && event.key !== " ") return event.stopPropagation();
    if (event.key === "Escape" || to !== undefined) event.preventDefault();
    event.stopPropagation();
  }
}

function kernelRow({ chip, colour, name, kind, fates, cost }: Kernel, act: () => void): HTMLElement {
  const own = look(colour);
  return h(
    "button.row",
    { type: "button", onclick: act, title: "Select it in the inspector" },
    h(`span.chip${own.pattern ? ".hatched" : ""}`, { style: `background:${paint(own)};color:${own.ink}` }, chip),
    h(
      "span.words",
      {},
      h("span.first", {}, h("b", {}, name), " ", h("span.muted", {}, kind)),
      ...fates.map((fate) => h("span.fate", {}, fate)),
    ),
    cost ? h("span.cost", {}, cost) : null,
  );
}

function breakRow(one: Break, act: () => void): HTMLElement {
  return h(
    "button.row.broke",
    { type: "button", onclick: act, title: "Show the trace breaks" },
    h("span.diamond", { "aria-hidden": "true" }, "◆"),
    h(
      "span.words",
      {},
      h("span.first", {}, h("b", {}, "Trace break"), " ", h("code", {}, one.code)),
      h("span.fate", {}, ...prose(one.text)),
      h("span.figures", {}, costOf(one)),
      one.hint ? h("span.hint", {}, ...prose(one.hint)) : null,
    ),
  );
}
