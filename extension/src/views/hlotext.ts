/** One line of HLO: its parts told apart, what is searched for highlighted. */

import type { HloLine } from "../model/data";
import { h } from "../ui/dom";

/** Longest piece of a line that is shown; the foot of the inspector shows all of it. */
const LONGEST = 600;
const INSTRUCTION = /^(\s*(?:ROOT )?)(%?[\w.-]+)( = )((?:\(.*?\)|\S+?)(?:\{[^}]*\})? )([\w-]+)(\(.*)$/s;

function highlighted(text: string, query: string): (HTMLElement | string)[] {
  if (!query) return [text];
  const parts: (HTMLElement | string)[] = [];
  const low = text.toLowerCase();
  let from = 0;
  for (let at = low.indexOf(query); at >= 0; at = low.indexOf(query, from)) {
    if (at > from) parts.push(text.slice(from, at));
    parts.push(h("mark", {}, text.slice(at, at + query.length)));
    from = at + query.length;
  }
  parts.push(text.slice(from));
  return parts;
}

/** `query` in lower case. A hit across two parts is found, and highlighted where one part holds all of it. */
export function hloText(line: Pick<HloLine, "text">, query: string): HTMLElement {
  const text = line.text.length > LONGEST ? `${line.text.slice(0, LONGEST)} …` : line.text;
  const found = INSTRUCTION.exec(text);
  const code = h("code.hlo-text", {});
  if (!found) {
    code.append(...highlighted(text, query));
    return code;
  }
  const [, lead = "", name = "", equals = "", shape = "", opcode = "", rest = ""] = found;
  const cut = rest.indexOf(", metadata=");
  const body = cut < 0 ? rest : rest.slice(0, cut);
  const meta = cut < 0 ? "" : rest.slice(cut);
  code.append(
    ...highlighted(lead, query),
    h("span.hlo-name", {}, ...highlighted(name, query)),
    equals,
    h("span.hlo-shape", {}, ...highlighted(shape, query)),
    h("b", {}, ...highlighted(opcode, query)),
    ...highlighted(body, query),
  );
  if (meta) code.append(h("span.hlo-meta", {}, ...highlighted(meta, query)));
  return code;
}
