/** The line at the foot: what is pointed at or selected, in words. */

import { describe } from "./describe";
import { fill, h, plain, prose } from "./dom";
import type { Store } from "../model/store";

/** `idle`: what stands there while nothing is. */
export function fillFoot(foot: HTMLElement, store: Store, idle: string): void {
  const thing = store.shown;
  if (!thing) return fill(foot, h("span.muted", {}, idle));
  const { title, facts, code } = describe(thing, store);
  const said = facts.filter(Boolean).join(" · ");
  fill(
    foot,
    h("b.foot-title", { title }, title),
    h("span.foot-facts", { title: plain(said) }, ...prose(said)),
    code ? h("code.foot-code", { title: code }, code) : null,
  );
}
