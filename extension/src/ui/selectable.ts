/** Elements that stand for things: pointing at one previews it, activating it selects it, and it is lit with its kin. */

import { revealIn, visibleIn } from "./dom";
import { type Thing, keyOf, lit, same } from "../model/selection";
import type { Store } from "../model/store";

const things = new WeakMap<Element, Thing>();

/** Makes an element stand for a thing. With `focus`, it can be reached and activated with the keyboard. */
export function tag<E extends Element>(element: E, thing: Thing, focus = true): E {
  things.set(element, thing);
  element.classList.add("lz-thing");
  element.setAttribute("data-thing", keyOf(thing));
  if (focus) {
    element.setAttribute("tabindex", "0");
    if (!element.hasAttribute("role") && element.tagName !== "BUTTON" && element.tagName !== "TR")
      element.setAttribute("role", "button");
  }
  return element;
}

export function thingAt(target: EventTarget | null): Thing | null {
  const element = target instanceof Element ? target.closest(".lz-thing") : null;
  return (element && things.get(element)) ?? null;
}

/** Lights the things in an element that are highlighted. */
export function light(within: Element, store: Store): void {
  for (const element of within.querySelectorAll(".lz-thing")) {
    const thing = things.get(element);
    if (!thing) continue;
    element.classList.toggle("lz-lit", lit(thing, store.highlights));
    element.classList.toggle("lz-stuck", same(thing, store.stuck));
  }
}

/** Scrolls a pane to what is lit, unless some of it can be seen. */
export function reveal(pane: HTMLElement, within: Element = pane, lit = ".lz-lit"): void {
  const found = [...within.querySelectorAll(lit)];
  const first = found[0];
  if (first && !found.some((element) => visibleIn(pane, element))) revealIn(pane, first);
}

/** Listens for pointer and keys on everything in `root`. Returns what stops it. */
export function listen(root: HTMLElement, store: Store): () => void {
  const stop = new AbortController();
  const on = <K extends keyof HTMLElementEventMap>(type: K, act: (event: HTMLElementEventMap[K]) => void) =>
    root.addEventListener(type, act, { signal: stop.signal });
  on("pointerover", (event) => store.hover(thingAt(event.target)));
  on("pointerleave", () => store.hover(null));
  on("focusin", (event) => {
    if (event.target instanceof Element && event.target.matches(":focus-visible")) store.hover(thingAt(event.target));
  });
  on("focusout", () => store.hover(null));
  on("click", (event) => {
    const control = event.target instanceof Element ? event.target.closest("button, input, select, a, .lz-thing") : null;
    const thing = control ? thingAt(control) : null;
    if (control && thing && control.classList.contains("lz-thing")) store.click(thing);
  });
  on("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    const target = event.target instanceof Element ? event.target : null;
    const thing = target && target.tagName !== "BUTTON" ? things.get(target) : undefined;
    if (!thing) return;
    event.preventDefault();
    store.click(thing);
  });
  return () => stop.abort();
}
