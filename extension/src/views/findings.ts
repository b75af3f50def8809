/** What stands out: one to three sentences above the tabs, each with the experiment that tests it. */

import type { Compared, Finding } from "../model/data";
import { listed } from "../model/format";
import { findings as read } from "../model/read";
import type { Thing } from "../model/selection";
import type { Question } from "../ui/asking";
import { fill, h, plain, prose } from "../ui/dom";
import { chips } from "../ui/palette";
import { light, tag } from "../ui/selectable";
import type { Context, View } from "../ui/view";
import { badge } from "./fates";
import { verifying } from "./verifying";

/** Asks whoever holds the inspector to show two programs below it. */
export const COMPARED = "lazynb-compared";

/** What a finding is about; null where nothing can be lit up. */
function thingOf({ boundary, nodes, clusters, text }: Finding): Thing | null {
  if (boundary !== null) return { kind: "boundary", id: boundary };
  if (nodes.length) return { kind: "nodes", ids: nodes, key: `finding ${nodes.join()}`, title: plain(text) };
  return clusters[0] === undefined ? null : { kind: "cluster", id: clusters[0] };
}

export function findingsView(context: Context): View {
  const { store, comm, questions, signal } = context;
  const element = h("section.findings", { "aria-label": "Findings" });

  const compare = ({ variables }: Finding): Question => ({
    key: `without:${variables.join()}`,
    label: variables.length === 1 ? `Compare with del ${variables[0]}` : "Compare without them",
    title: `Compile it as if del ${variables.join(", ")} stood before the run, and show both programs; runs nothing`,
    doing: "compiling, running nothing",
    alone: true,
    ask: async () => {
      const answer = await comm.ask({ type: "without", variables }, "without");
      store.setFindings(read(answer.findings));
      element.dispatchEvent(new CustomEvent<Compared>(COMPARED, { bubbles: true, detail: answer.compared }));
      return "Both are shown below.";
    },
  });

  function experiment(finding: Finding): HTMLElement | null {
    if (!store.data.live) return null;
    if (finding.kind === "held") return questions.button(compare(finding));
    const boundary = finding.boundary === null ? undefined : store.relations.boundaries.get(finding.boundary);
    return boundary?.verify ? questions.button(verifying(boundary, context, "finding")) : null;
  }

  function row(finding: Finding): HTMLElement {
    const labels = finding.clusters.map((id) => store.relations.kernel(id));
    const made = h(
      "div.finding",
      { role: "group", "aria-label": `${listed(labels)}: ${plain(finding.text)}`.replace(/^: /, "") },
      h(
        "div.finding-said",
        {},
        finding.clusters.length ? chips(finding.clusters, store.relations, 4, false) : null,
        h("p", {}, ...prose(finding.text), finding.verdict && " ", ...prose(finding.verdict), " ", badge(finding.label)),
      ),
      experiment(finding),
    );
    const thing = thingOf(finding);
    return thing ? tag(made, thing) : made;
  }

  const draw = () => {
    element.hidden = !store.data.findings.length;
    fill(element, ...store.data.findings.map(row));
    light(element, store);
  };
  draw();
  const off = store.on("figures", draw);
  signal.addEventListener("abort", off);
  return { element, update: () => light(element, store) };
}
