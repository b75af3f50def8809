/** One line of HLO: its parts told apart, what is searched for highlighted. */

import type { HloLine } from "../model/data";
import type { Range } from "../model/difference";
import { h } from "../ui/dom";

/** Longest piece of a line that is shown; the foot of the inspector shows all of it. */
const LONGEST = 600;
const INSTRUCTION = /^(\s*(?:ROOT )?)(%?[\w.-]+)( = )((?:\(.*?\)|\S+?)(?:\{[^}]*\})? )([\w-]+)(\(.*)$/s;

type Piece = HTMLElement | string;

function highlighted(text: string, query: string): Piece[] {
  if (!query) return [text];
  const parts: Piece[] = [];
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

/** What only this version of a line has is marked: `tag` is "del" or "ins". */
export interface Words {
  tag: "del" | "ins";
  ranges: readonly Range[];
}

/** A piece of a line that begins at `start`. */
function marked(text: string, start: number, query: string, words: Words | undefined): Piece[] {
  const pieces: Piece[] = [];
  let at = 0;
  for (const [from, to] of words?.ranges ?? []) {
    const [a, b] = [Math.max(at, from - start), Math.min(text.length, to - start)];
    if (a >= b) continue;
    if (a > at) pieces.push(...highlighted(text.slice(at, a), query));
    pieces.push(h((words as Words).tag, {}, ...highlighted(text.slice(a, b), query)));
    at = b;
  }
  if (at < text.length) pieces.push(...highlighted(text.slice(at), query));
  return pieces;
}

/** The text of a line as far as it is shown. */
export const cut = (text: string): string => (text.length > LONGEST ? `${text.slice(0, LONGEST)} …` : text);

/** `query` in lower case. A hit across two parts is found, and highlighted where one part holds all of it. */
export function hloText(line: Pick<HloLine, "text">, query: string, words?: Words): HTMLElement {
  const text = cut(line.text);
  const found = INSTRUCTION.exec(text);
  const code = h("code.hlo-text", {});
  let start = 0;
  const take = (part: string): Piece[] => {
    start += part.length;
    return marked(part, start - part.length, query, words);
  };
  if (!found) {
    code.append(...take(text));
    return code;
  }
  const [, lead = "", name = "", equals = "", shape = "", opcode = "", rest = ""] = found;
  const end = rest.indexOf(", metadata=");
  code.append(
    ...take(lead),
    h("span.hlo-name", {}, ...take(name)),
    ...take(equals),
    h("span.hlo-shape", {}, ...take(shape)),
    h("b", {}, ...take(opcode)),
    ...take(end < 0 ? rest : rest.slice(0, end)),
  );
  if (end >= 0) code.append(h("span.hlo-meta", {}, ...take(rest.slice(end))));
  return code;
}
