/** A list of which only the rows in sight exist, so that ten thousand of them cost nothing. */

import { h } from "./dom";

const SPARE = 8;

export class Rows {
  readonly element: HTMLElement;
  active = -1;
  private readonly sheet: HTMLElement;
  private count = 0;
  private from = 0;
  private to = 0;
  /** The upper edge of each row, and the lower of the last. */
  private edges = new Float64Array(1);
  /** Where it is scrolled to. */
  private top = 0;
  private readonly watch: ResizeObserver;

  /** `render` makes row i; `tall` is the height of row i, in pixels, for a width of the list; `activate` is Enter on the
      active row. */
  constructor(
    private readonly tall: (width: number, i: number) => number,
    private readonly render: (i: number) => HTMLElement,
    private readonly hooks: { label: string; drawn?: () => void; activate?: (i: number) => void; preview?: (i: number) => void },
  ) {
    this.sheet = h("div.sheet", {});
    this.element = h("div.rows", { tabindex: 0, role: "list", "aria-label": hooks.label }, this.sheet);
    const scrolled = () => {
      this.top = this.element.scrollTop;
      this.draw();
    };
    this.element.addEventListener("scroll", scrolled, { passive: true });
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.watch = new ResizeObserver(() => this.stretch());
    this.watch.observe(this.element);
  }

  set(count: number): void {
    this.count = count;
    this.active = -1;
    this.stretch();
  }

  /** Came to the front: an element that was taken out forgets where it was scrolled to. */
  shown(): void {
    this.stretch();
    this.element.scrollTop = this.top;
    this.draw(true);
  }

  /** Narrow rows may be higher; the first in sight stays. */
  private stretch(): void {
    const { clientWidth: width, scrollTop } = this.element;
    const first = this.rowAt(scrollTop);
    const over = scrollTop - this.edge(first);
    this.edges = new Float64Array(this.count + 1);
    for (let i = 0; i < this.count; i += 1) this.edges[i + 1] = this.edge(i) + this.tall(width, i);
    this.sheet.style.height = `${this.edge(this.count)}px`;
    if (scrollTop) this.element.scrollTop = this.edge(first) + over;
    this.draw(true);
  }

  private edge(i: number): number {
    return this.edges[i] ?? 0;
  }

  /** The row at a height. */
  private rowAt(height: number): number {
    let [low, high] = [0, Math.min(this.count, this.edges.length - 1)];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.edge(middle + 1) <= height) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Makes the rows again, or only those that came into sight. */
  draw(again = false): void {
    const { scrollTop, clientHeight } = this.element;
    const from = Math.max(0, this.rowAt(scrollTop) - SPARE);
    const to = Math.min(this.count, this.rowAt(scrollTop + (clientHeight || 600)) + 1 + SPARE);
    if (!again && from === this.from && to === this.to) return;
    this.from = from;
    this.to = to;
    const rows = [];
    for (let i = from; i < to; i += 1) {
      const row = this.render(i);
      row.style.top = `${this.edge(i)}px`;
      row.classList.toggle("lz-active", i === this.active);
      row.setAttribute("role", "listitem");
      rows.push(row);
    }
    this.sheet.replaceChildren(...rows);
    this.hooks.drawn?.();
  }

  /** Whether one of these rows can be seen. */
  sees(i: number): boolean {
    const { scrollTop, clientHeight } = this.element;
    return this.edge(i + 1) > scrollTop && this.edge(i) < scrollTop + clientHeight;
  }

  show(i: number): void {
    if (this.sees(i) && this.sees(i + 1)) return;
    const middle = (this.edge(i) + this.edge(i + 1)) / 2;
    this.element.scrollTop = Math.max(0, middle - this.element.clientHeight / 3);
    this.draw();
  }

  /** Brings a row to the top. */
  begin(i: number): void {
    this.element.scrollTop = this.edge(i);
    this.draw();
  }

  activateAt(i: number): void {
    this.active = i;
    this.show(i);
    this.draw(true);
  }

  private key(event: KeyboardEvent): void {
    const { scrollTop, clientHeight } = this.element;
    const page = Math.max(1, this.rowAt(scrollTop + clientHeight) - this.rowAt(scrollTop) - 1);
    const steps: Record<string, number> = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: page,
      PageUp: -page,
      Home: -this.count,
      End: this.count,
    };
    const step = steps[event.key];
    if (step !== undefined && this.count) {
      event.preventDefault();
      this.activateAt(Math.min(this.count - 1, Math.max(0, this.active + step)));
      this.hooks.preview?.(this.active);
    } else if ((event.key === "Enter" || event.key === " ") && this.active >= 0 && event.target === this.element) {
      event.preventDefault();
      this.hooks.activate?.(this.active);
    }
  }

  dispose(): void {
    this.watch.disconnect();
  }
}
