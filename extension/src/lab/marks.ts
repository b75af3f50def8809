/** The marks of all cells, by kernel and cell: a cell may have no editor yet, and a copied notebook has cells of the same ids. */

import type { At } from "../ui/going";
import type { Line, Marks } from "./messages";

export class MarkStore {
  private readonly kernels = new Map<string, Map<string, Marks>>();

  /** `changed` is told of a kernel and one of its cells, or of all of them (null). */
  constructor(private readonly changed: (kernel: string, cell: string | null) => void) {}

  put(kernel: string, marks: Marks): void {
    const cells = this.kernels.get(kernel) ?? new Map<string, Marks>();
    this.kernels.set(kernel, cells);
    if (marks.lines.length) cells.set(marks.cell, marks);
    else cells.delete(marks.cell);
    this.changed(kernel, marks.cell);
  }

  clear(kernel: string): void {
    if (this.kernels.delete(kernel)) this.changed(kernel, null);
  }

  /** The cell that a line is in, and its kernel; null where no cell has it as it was run. */
  find(at: At): { kernel: string; cell: string } | null {
    for (const exactly of [true, false])
      for (const [kernel, cells] of this.kernels)
        for (const marks of cells.values()) if (isOf(marks, at, exactly)) return { kernel, cell: marks.cell };
    return null;
  }

  of(kernel: string | undefined, cell: string): Marks | null {
    return (kernel !== undefined && this.kernels.get(kernel)?.get(cell)) || null;
  }
}

/** Whether marks are of the cell that a line is in: of the very run, or of the same text run again. */
const isOf = ({ file, run }: Marks, at: At, exactly: boolean): boolean => file === at.file && (!exactly || run === at.cell);

/** The numbers of those lines that are in the cell that the marks are of. */
export const within = (marks: Marks, lines: readonly At[]): Set<number> =>
  new Set(lines.filter((at) => isOf(marks, at, at.cell !== null)).map(({ line }) => line));

/** Whether there is anything to show of a line. */
export const isMarked = (line: Line): boolean => line.kernels.length + line.fates.length + line.breaks.length > 0;

/** Most that a stripe is split into. */
export const MOST = 4;

/** The colours of a line's kernels, the same one once. */
export function coloursOf(line: Line): number[] {
  return [...new Set(line.kernels.map(({ colour }) => colour))].slice(0, MOST);
}

/** How much a line's breaks matter: 1 for the costliest of the session, 2 for the next, 3 for the rest, 0 for none. */
export function weightOf(line: Line): 0 | 1 | 2 | 3 {
  if (!line.breaks.length) return 0;
  const rank = Math.min(...line.breaks.map((one) => one.rank));
  return rank <= 1 ? 1 : rank <= 3 ? 2 : 3;
}
