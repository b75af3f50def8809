/** Making elements. All text goes in as text nodes: nothing that the user named can become markup. */

type Child = globalThis.Node | string | number | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: never) => void)>;

const SVG = "http://www.w3.org/2000/svg";

function dress(element: Element, attributes: Attributes, children: Child[]): void {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(key.slice(2), value as EventListener);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  put(element, children);
}

export function put(element: Element, children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(typeof child === "number" ? String(child) : child);
  }
}

/** h("button.primary", {onclick}, "text"): attributes that start with "on" are listeners. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K | `${K}.${string}`,
  attributes?: Attributes,
  ...children: Child[]
): HTMLElementTagNameMap[K];
export function h(tag: string, attributes?: Attributes, ...children: Child[]): HTMLElement;
export function h(tag: string, attributes: Attributes = {}, ...children: Child[]): HTMLElement {
  const [name = "div", ...classes] = tag.split(".");
  const element = document.createElement(name || "div");
  if (classes.length) element.className = classes.map((one) => `lz-${one}`).join(" ");
  dress(element, attributes, children);
  return element;
}

export function s(tag: string, attributes: Attributes = {}, ...children: Child[]): SVGElement {
  const [name = "g", ...classes] = tag.split(".");
  const element = document.createElementNS(SVG, name);
  if (classes.length) element.setAttribute("class", classes.map((one) => `lz-${one}`).join(" "));
  dress(element, attributes, children);
  return element;
}

/** A small button; `title` says what it does. */
export const tool = (label: string, title: string, act: () => void): HTMLElement =>
  h("button.tool", { type: "button", title, "aria-label": title, onclick: act }, label);

/** Replaces what is in an element. */
export function fill(element: Element, ...children: Child[]): void {
  element.replaceChildren();
  put(element, children);
}

/** Brings an element into its scrolling pane, moving nothing outside of that pane. */
export function revealIn(pane: HTMLElement, element: Element): void {
  const outer = pane.getBoundingClientRect();
  const inner = element.getBoundingClientRect();
  const tall = Math.min(inner.height, outer.height - 16);
  if (inner.top < outer.top) pane.scrollTop -= outer.top - inner.top + 12;
  else if (inner.top + tall > outer.bottom) pane.scrollTop += inner.top + tall - outer.bottom + 12;
  if (inner.left < outer.left) pane.scrollLeft -= outer.left - inner.left + 12;
  else if (inner.left > outer.right - 40) pane.scrollLeft += inner.left - outer.right + Math.min(inner.width, outer.width) + 12;
}

export function visibleIn(pane: HTMLElement, element: Element): boolean {
  const outer = pane.getBoundingClientRect();
  const inner = element.getBoundingClientRect();
  return inner.bottom > outer.top && inner.top < outer.bottom && inner.right > outer.left && inner.left < outer.right;
}

/** A long text that may break after the signs of a name or of code, before it breaks anywhere. */
export function breakable(text: string): (HTMLElement | string)[] {
  if (text.length < 24) return [text];
  return text.split(/(?<=[_.,([{=/])(?=[^\s=])/).flatMap((part, i) => (i ? [h("wbr"), part] : [part]));
}

/** A sentence without the backticks around what is code. */
export const plain = (text: string): string => text.replaceAll("`", "");

/** A sentence of which the parts in backticks are code. */
export function prose(text: string): (HTMLElement | string)[] {
  return text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));
}
