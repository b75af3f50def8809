/** The kernels in the order in which they run, and why a value crosses from one to the next. */

import type { Boundary, Cluster, Value } from "../model/data";
import { kindName, kindWords } from "../ui/describe";
import { breakable, fill, h, prose, put } from "../ui/dom";
import { bytes, count, listed } from "../model/format";
import { executions, inAll, turnWords } from "../ui/executions";
import { moreButton } from "../ui/more";
import { bar, chip } from "../ui/palette";
import { between, kernelWords, perDevice, placeTitle, placeWords } from "../model/program";
import { boundaries, findings } from "../model/read";
import { light, reveal, tag } from "../ui/selectable";
import type { Context, View } from "../ui/view";
import { badge } from "./fates";
import { flowMap } from "./flow";
import { verifying } from "./verifying";
import { formationView } from "./formation";
import { nodeTitle, nodeWords } from "../model/words";

const PAGE = 60;

export function fusionView(context: Context): View {
  const { store, comm, questions, signal } = context;
  const list = h("div.scroll.cards", { role: "region", "aria-label": "kernels and the boundaries between them", tabindex: 0 });
  const map = h("div.map-holder", {});
  const toolbar = h("div.toolbar", {});
  const summary = h("span.muted", {});
  const ask = questions.button({
    key: "ask",
    label: "Ask the compiler",
    title: "Compile again and log the compiler's own reasons; where it logs none, compile again without each likely cause",
    doing: "compiling again",
    alone: true,
    ask: async () => {
      const answer = await comm.ask({ type: "ask" }, "boundaries");
      store.setBoundaries(boundaries(answer.boundaries), findings(answer.findings));
      const all = store.data.boundaries;
      const said = all.filter(({ said }) => said).length;
      const tested = all.filter(({ verdict }) => verdict).length;
      return `The compiler said why for ${said} of ${all.length}.${tested ? ` Experiments were made for ${tested}: see their verdicts.` : ""}`;
    },
  });
  let shown = PAGE;
  let begun = false; // whether the map was seen

  const draw = () => {
    const clusters = store.data.clusters.filter((cluster) => cluster.program === store.program || store.data.programs.length < 2);
    const top = list.scrollTop;
    const crossing = clusters.reduce((n, { id }) => n + between(produced(id)).length, 0);
    summary.textContent = `${kernelWords(clusters)}, ${count(crossing, "boundary", "boundaries")}${perDevice(store.data.programs) && "; bytes per device"}`;
    fill(map, clusters.length > 1 ? flowMap(clusters, store) : null);
    fill(list);
    toolbar.hidden = !store.data.programs.length;
    if (!clusters.length)
      list.append(
        h(
          "div.empty",
          {},
          store.data.programs.length
            ? "No kernel runs in this program: everything was folded or unused."
            : "Nothing was compiled, so there is no kernel to show.",
        ),
      );
    for (const cluster of clusters.slice(0, shown)) {
      list.append(card(cluster), ...produced(cluster.id).map(boundaryRow));
    }
    const more = moreButton(clusters.length - shown, PAGE, "kernel", () => {
      shown += PAGE;
      draw();
    });
    if (more) list.append(more);
    list.scrollTop = top;
    light(element, store);
  };

  /** The map begins where its first kernel stands, which others may be above. */
  const beginMap = () => {
    const first = map.querySelector(".lz-block");
    if (begun || !first || !map.clientHeight) return;
    begun = true;
    const [outer, inner] = [map, first].map((one) => one.getBoundingClientRect()) as [DOMRect, DOMRect];
    if (inner.bottom > outer.bottom || inner.top < outer.top)
      map.scrollTop += (inner.top + inner.bottom) / 2 - (outer.top + outer.bottom) / 2;
  };

  const produced = (id: number): Boundary[] => (store.relations.boundariesOf.get(id) ?? []).filter((one) => one.producer === id);

  const title = (id: number): string => {
    const node = store.relations.nodes.get(id);
    return node ? nodeTitle(node) : `#${id}`;
  };

  const values = (heading: string, all: Value[], total: number, inAllRuns: string): HTMLElement => {
    const named = all.map((value) => {
      const from = value.from === null ? (value.node === null ? "" : title(value.node)) : store.relations.kernel(value.from);
      return `${from || value.name} ${value.shape}`.trim();
    });
    return h(
      "div.flow-figure",
      { title: named.join("\n") },
      h("span.muted", {}, heading),
      h("b", {}, bytes(total)),
      inAllRuns ? h("span.muted", {}, `, ${inAllRuns}`) : null,
      h("span.muted.clip", {}, listed(named, 3)),
    );
  };

  const card = (cluster: Cluster): HTMLElement => {
    const { relations } = store;
    const members = cluster.nodes.map((id) => relations.nodes.get(id)).filter((node) => node !== undefined);
    const op = (node: (typeof members)[number]) =>
      tag(
        h(
          `span.member${cluster.duplicated.includes(node.id) ? ".twice" : ""}`,
          {
            title: cluster.duplicated.includes(node.id)
              ? `${nodeWords(node)}: also computed in another kernel`
              : placeWords(node.place),
          },
          nodeWords(node),
          cluster.duplicated.includes(node.id) ? h("span.again", {}, "×2") : null,
        ),
        { kind: "node", id: node.id },
      );
    const rest = members.length - 24;
    const made = h(
      "article.card",
      // A group and not a button: it has buttons inside.
      { style: `--bar:${bar([cluster.id], relations)}`, role: "group", "aria-label": `kernel ${cluster.label} ${cluster.name}` },
      h(
        "div.card-head",
        {},
        chip(cluster.id, relations, false),
        h("b.card-name", { title: cluster.name }, ...breakable(cluster.name)),
        h("span.kind", { title: kindWords(cluster) }, kindName(cluster)),
        turnWords(cluster) ? h("b", {}, turnWords(cluster)) : null,
        cluster.inside === null ? null : h("span.muted", {}, `inside ${relations.kernel(cluster.inside)}`),
        cluster.kind === "control" ? null : executions(cluster),
        h("span.spring", {}),
        h("span.muted.where", { title: placeTitle(cluster.place) }, placeWords(cluster.place)),
      ),
      members.length
        ? h("div.members", {}, ...members.slice(0, 24).map(op), rest > 0 ? h("span.muted", {}, `and ${rest} more`) : null)
        : h("div.muted", {}, "no recorded operation of yours: the compiler added it"),
      cluster.kind === "loop" || cluster.kind === "single" ? null : h("div.muted.kind-words", {}, kindWords(cluster)),
      h(
        "div.flows",
        {},
        values("reads", cluster.inputs, cluster.input_bytes, inAll(cluster, cluster.input_bytes)),
        values("writes", cluster.outputs, cluster.output_bytes, inAll(cluster, cluster.output_bytes)),
        cluster.passes.length
          ? h(
              "div.flow-figure",
              { title: cluster.passes.join(" → ") },
              h("span.muted", {}, "formed by"),
              h("span.clip", {}, listed(cluster.passes, 3)),
            )
          : null,
      ),
      cluster.duplicated.length
        ? h(
            "div.note",
            {},
            `${count(cluster.duplicated.length, "operation")} computed again here to save memory traffic: ${listed(cluster.duplicated.map(title))}`,
          )
        : null,
    );
    return tag(made, { kind: "cluster", id: cluster.id });
  };

  const boundaryRow = (boundary: Boundary): HTMLElement => {
    const { relations } = store;
    const verify = boundary.verify !== null && store.data.live ? questions.button(verifying(boundary, context)) : null;
    const end = boundary.consumer === null ? h("span.chip.chip-plain", {}, "result") : chip(boundary.consumer, relations, false);
    const made = h(
      "div.boundary",
      { role: "group", "aria-label": `boundary from ${relations.kernel(boundary.producer)} to ${relations.consumer(boundary)}` },
      h(
        "div.card-head",
        {},
        chip(boundary.producer, relations, false),
        h("span.arrow", { "aria-label": "to" }, "→"),
        end,
        h("code.aval", { title: boundary.value }, boundary.shape),
        h("b", {}, bytes(boundary.bytes)),
        h("span.spring", {}),
        badge(boundary.label),
      ),
      h("p.reason", {}, ...prose(boundary.text || "No reason is known.")),
      boundary.variables.length
        ? h(
            "p.kept",
            {},
            "kept alive by ",
            ...boundary.variables.slice(0, 8).flatMap((name, i) => [i ? " " : "", h("code.var", { title: name }, name)]),
            boundary.variables.length > 8 ? ` and ${boundary.variables.length - 8} more` : "",
          )
        : null,
      boundary.more ? h("p.reason", {}, ...prose(boundary.more), " ", badge("rule inferred", true)) : null,
      boundary.rule ? h("p.muted", {}, "Inferred from: ", boundary.rule) : null,
      boundary.hint ? h("p.hint", {}, h("b", {}, "Try: "), ...prose(boundary.hint)) : null,
      boundary.said ? h("blockquote.said", {}, boundary.said) : null,
      boundary.verdict ? h("p.verdict", {}, h("b", {}, "Verdict: "), ...prose(boundary.verdict)) : null,
      verify,
    );
    return tag(made, { kind: "boundary", id: boundary.id });
  };

  let passes: View | null = null; // made when it is looked at
  const mode = (label: string, title: string, isPasses: boolean) =>
    h("button.segment", { type: "button", title, "aria-pressed": String(!isPasses), onclick: () => choose(isPasses) }, label);
  const modes = [
    mode("Kernels", "The kernels, and why they are not one", false),
    mode("Passes", "How the kernels came about, pass by pass", true),
  ];
  put(toolbar, [
    h("span.segments", { role: "group", "aria-label": "What to show of the kernels" }, ...modes),
    summary,
    h("span.spring", {}),
    store.data.live && ask,
  ]);
  const element = h("div.pane.fusion", {}, toolbar, map, list);
  const choose = (isPasses: boolean) => {
    modes.forEach((one, i) => one.setAttribute("aria-pressed", String(isPasses === (i === 1))));
    map.hidden = list.hidden = ask.hidden = isPasses;
    if (isPasses && !passes) {
      passes = formationView(context);
      element.append(passes.element);
    }
    if (!passes) return;
    passes.element.hidden = !isPasses;
    if (isPasses) {
      passes.shown?.();
      passes.update?.();
    }
  };
  draw();
  const off = [store.on("figures", draw), store.on("program", draw)];
  signal.addEventListener("abort", () => off.forEach((stop) => stop()));
  return {
    element,
    update: () => {
      light(element, store);
      passes?.update?.();
    },
    shown: () => {
      if (passes && !passes.element.hidden) passes.shown?.();
      else beginMap();
    },
    dispose: () => passes?.dispose?.(),
    reveal: () => {
      if (passes && !passes.element.hidden) return passes.reveal?.();
      const clusters = store.data.clusters.filter((cluster) => cluster.program === store.program);
      const last = clusters.findIndex((cluster) => store.highlights.clusters.has(cluster.id));
      if (last >= shown) {
        shown = last + PAGE;
        draw();
      }
      reveal(list);
      reveal(map);
    },
  };
}
