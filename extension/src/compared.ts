/** Two compilations side by side: what is pointed at or selected in one is so in the other, as far as that has it, and both show the
 * same view. */

import { type Inspector, mountOne } from "./inspector";
import { noComm } from "./model/comm";
import type { Compared } from "./model/data";
import { Counterparts } from "./model/counterparts";
import { h } from "./ui/dom";
import { shareLines } from "./ui/sharing";

export const isCompared = (given: unknown): given is Compared => !!given && typeof given === "object" && "before" in given;

export function mountCompared(el: HTMLElement, given: Compared, firstTab?: string) {
  const places = [h("div", {}), h("div", {})];
  const root = h("div.pair", {}, ...places);
  el.append(root);
  const [before, now] = [given.before, given.now].map((data, i) =>
    mountOne(places[i] as HTMLElement, data, noComm, firstTab, h("div.pair-name", {}, given.names[i]), (store, signal) =>
      shareLines(store, signal, true),
    ),
  ) as [Inspector, Inspector];
  const ending = new AbortController();
  const counterparts = new Counterparts(given, before.store, now.store);
  const off = [...follow(before, now), ...follow(now, before)];
  let told = false; // what another said is not said again

  function tell(act: () => void): void {
    if (told) return;
    told = true;
    try {
      act();
    } finally {
      told = false;
    }
  }

  /** What is done in `from` is done in `to`. */
  function follow(from: Inspector, to: Inspector): (() => void)[] {
    for (const event of ["click", "keyup"]) {
      const sameTab = () => to.open(from.tab());
      from.element.addEventListener(event, sameTab, { signal: ending.signal });
    }
    return [
      from.store.on("selection", () => tell(() => to.store.hover(counterparts.of(from.store.hovered, from.store)))),
      from.store.on("stuck", () =>
        tell(() => {
          const there = counterparts.of(from.store.stuck, from.store);
          if (there) to.store.stick(there);
          else to.store.clear();
        }),
      ),
    ];
  }

  return {
    renew: () => false,
    tab: () => before.tab(),
    dispose() {
      ending.abort();
      for (const stop of off) stop();
      before.dispose();
      now.dispose();
      root.remove();
    },
  };
}
