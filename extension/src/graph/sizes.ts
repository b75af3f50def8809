/** How much room a box takes, by what is written in it. */

import type { Group, Node } from "../model/data";
import type { Relations } from "../model/program";
import { nodeTitle, shortAval } from "../model/words";
import type { Size } from "./layout";
import { type Part, contentsOf, keptAs, linesOf, titleOf } from "./parts";

/** What is written in a box beside its own name. */
export interface Written {
  /** The numbers in the user's code that a single node uses, which have no box of their own. */
  literals: string[];
  /** The user's line, unless it stands in the box above already. */
  statement: string;
}

/** `foot`: the height of the band of a box that holds a result; `apart`: of a node's box, whether what stands beside its name has a line
 * of its own. */
export type Sized = Size & { foot?: number; apart?: boolean };

/** Letters and rows, both of one width: the user's line, and the band at the foot. */
const STATEMENT = { letter: 6.4, row: 16 };
const BAND = { letter: 7.3, row: 20 };
/** Width up to which a box is made wider for them; then they wrap. */
const WIDEST = 300;
const MARGIN = 28;

const rows = (text: string, letter: number, width: number): number =>
  text ? Math.ceil((text.length * letter) / (width - MARGIN)) : 0;

const QUIET = new Set(["dead", "cancelled", "merged", "folded", "lost"]);

export const isQuiet = (kind: string | undefined): boolean => kind !== undefined && QUIET.has(kind);

/** What the chips of kernels take, of which at most `most` are drawn. */
function chipRoom(ids: readonly number[], most: number, relations: Relations): number {
  const widths = ids.map((id) => Math.max(23, relations.kernel(id).length * 7.2 + 15) + 3);
  const shown = widths.length > most ? [...widths.slice(0, most - 1), 26] : widths;
  return shown.reduce((sum, width) => sum + width, 3);
}

/** Characters beside a node's name: the numbers that it uses, and the user's variables where they have no band. */
function besides(node: Node, literals: readonly string[]): number {
  const names = node.output ? [] : node.names.filter((name) => name !== nodeTitle(node));
  return [literals.join(" "), names.length ? `= ${names.join(", ")}` : ""].join(" ").trim().length;
}

export function sizeOf(part: Part, written: Written, relations: Relations): Sized {
  const size = part.group ? groupSize(part, part.group, relations) : nodeSize(part.nodes[0], written.literals, relations);
  const { statement } = written;
  const band = keptAs(part) ?? "";
  const wide = Math.max(statement.length * STATEMENT.letter, band.length * BAND.letter) + MARGIN;
  const width = Math.ceil(Math.max(size.width, Math.min(WIDEST, wide)));
  const foot = BAND.row * rows(band, BAND.letter, width);
  return { ...size, width, foot, height: size.height + foot + STATEMENT.row * rows(statement, STATEMENT.letter, width) };
}

function groupSize(part: Part, held: Group, relations: Relations): Size {
  const clusters = new Set(part.nodes.flatMap(({ id }) => relations.clustersOf(id)));
  const words = contentsOf(held, part.nodes).length * 6.7 + 28;
  const last = linesOf(held).length * 6.2 + chipRoom([...clusters], 4, relations) + 34;
  const width = Math.round(Math.min(340, Math.max(236, titleOf(held).length * 7.6 + 60, words, last)));
  return { width, height: words > width ? 81 : 66 };
}

function nodeSize(node: Node | undefined, literals: readonly string[], relations: Relations): Sized {
  if (!node) return { width: 120, height: 40 };
  const fate = relations.fates.get(node.id);
  const beside = besides(node, literals) * 7.5;
  const flags = 46 + chipRoom(fate?.clusters ?? [], 3, relations) + (relations.moves.has(node.id) ? 28 : 0);
  const label = Math.max(
    nodeTitle(node).length * 8.2 + flags,
    (shortAval(node.avals[0] ?? "").length + (node.place?.label.length ?? 0) + 3) * 6.4 + 26,
  );
  const side = nodeTitle(node).length * 8.2 + flags + beside;
  const input = node.kind === "input";
  const apart = !input && side > 300;
  const width = Math.round(Math.min(input ? 208 : 440, Math.max(118, label, apart ? beside + 26 : side)));
  if (input) return { width: width + 12, height: 40 };
  const height = apart ? 60 : 44;
  if (!isQuiet(fate?.kind)) return { width, height, apart };
  const words = (fate?.text ?? "").length * 6.1;
  const wide = Math.round(Math.max(width, 176, Math.min(words + 30, 220)));
  return { width: wide, height: height + 1 + 15 * Math.max(1, Math.min(3, Math.ceil(words / (wide - 30)))), apart };
}
