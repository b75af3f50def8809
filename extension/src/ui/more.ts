/** The button under a list that is too long to draw at once. */

import { count } from "../model/format";
import { h } from "./dom";

/** Null where nothing is left. `extend` draws `page` more. */
export function moreButton(left: number, page: number, noun: string, extend: () => void): HTMLElement | null {
  if (left <= 0) return null;
  return h(
    "button.more-button",
    { type: "button", onclick: extend },
    `Show ${Math.min(page, left)} of ${count(left, `more ${noun}`)}`,
  );
}
