/** What the compiler made of the selected kernel: its HLO and the machine's own code side by side. */

import type { Cluster, Code } from "../model/data";
import { kernelsOf, placeWords } from "../model/program";
import { code as readCode } from "../model/read";
import { kindName, kindWords } from "../ui/describe";
import { fill, h } from "../ui/dom";
import { chip } from "../ui/palette";
import { light } from "../ui/selectable";
import type { Context, View } from "../ui/view";

export function codeView({ store, comm, questions, signal }: Context): View {
  const kernels = h("div.toolbar.code-kernels", { role: "group", "aria-label": "Kernels" });
  const head = h("div.code-head", {});
  const texts = h("div.code-texts", {});
  const note = h("p.muted.code-note", {});
  const element = h("div.pane.code-pane", {}, kernels, head, texts, note);
  let shown: Cluster | null = null;
  let way: "assembly" | "llvm" = "assembly";

  const all = (): Cluster[] => kernelsOf(store.data.clusters).filter((one) => one.program === store.program);

  /** The kernel that was clicked, or the first of what was. */
  const wanted = (): Cluster | null => {
    const lit = all().filter(({ id }) => store.stuckHighlights.clusters.has(id));
    if (lit.length) return shown && lit.includes(shown) ? shown : (lit[0] ?? null);
    return shown && all().includes(shown) ? shown : (all()[0] ?? null);
  };

  const draw = (): void => {
    fill(kernels, ...all().map(({ id }) => chip(id, store.relations)));
    for (const one of kernels.children) one.setAttribute("tabindex", "0");
    note.textContent = shown?.code?.note ?? "";
    note.hidden = !note.textContent;
    kernels.hidden = head.hidden = !shown;
    if (!shown) {
      return fill(texts, h("div.empty", {}, "No kernel runs in this program."));
    }
    const { code } = shown;
    fill(
      head,
      chip(shown.id, store.relations, false),
      h("b.card-name", {}, shown.name),
      h("span.muted", { title: kindWords(shown) }, kindName(shown)),
      h("span.muted", {}, placeWords(shown.place)),
      shown.place ? h("code.code-line-of", {}, shown.place.text.trim()) : null,
      ...(code?.facts ?? []).map(([name, value]) => h("span.fact", {}, h("span.muted", {}, name), " ", value)),
    );
    if (code) return fill(texts, ...columns(code));
    if (!store.data.live) return fill(texts, h("div.empty", {}, "The code of this kernel was not kept in this saved view."));
    ask(shown);
  };

  const ask = (cluster: Cluster): void => {
    const question = {
      key: `code:${cluster.id}`,
      label: "Ask again",
      title: "Ask the kernel for the code of this kernel",
      doing: "asking the kernel",
      ask: async () => {
        const answer = await comm.ask({ type: "code", cluster: cluster.id }, "code");
        store.setCode(cluster.id, readCode(answer.code));
        if (shown?.id === cluster.id) refresh();
        return "";
      },
    };
    fill(texts, h("div.empty", {}, questions.button(question)));
    void questions.ask(question);
  };

  const listing = (title: string | HTMLElement, text: string): HTMLElement =>
    h(
      "section.listing",
      {},
      h("h4.listing-title", {}, title),
      h("pre.listing-text", { tabindex: 0, "aria-label": typeof title === "string" ? title : "code" }, text),
    );

  const columns = (code: Code): HTMLElement[] => {
    const made = [listing("HLO", code.hlo)];
    const either = [
      { key: "assembly" as const, name: code.language, text: code.assembly },
      { key: "llvm" as const, name: "LLVM IR", text: code.llvm },
    ].filter(({ text }) => text);
    const own = either.find(({ key }) => key === way) ?? either[0];
    if (own) {
      const choose = either.map(({ key, name }) =>
        h(
          "button.tool",
          {
            type: "button",
            "aria-pressed": String(key === own.key),
            onclick: () => {
              way = key;
              draw();
            },
          },
          name,
        ),
      );
      made.push(listing(either.length > 1 ? h("span", {}, ...choose) : own.name, own.text));
    }
    return made;
  };

  const refresh = (): void => {
    shown = wanted();
    const now = shown && store.relations.clusters.get(shown.id);
    shown = now ?? null;
    draw();
    light(element, store);
  };

  refresh();
  const off = [store.on("program", refresh), store.on("figures", refresh), store.on("stuck", refresh)];
  signal.addEventListener("abort", () => off.forEach((stop) => stop()));
  return {
    element,
    update: () => light(element, store),
    shown: refresh,
  };
}
