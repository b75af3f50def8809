/** One selection on the page: what is selected in an inspector is marked in the gutters, and a mark selects in the inspectors. A line
 * that somebody wants to see comes into sight in its cell. */

import type { JupyterFrontEnd } from "@jupyterlab/application";
import { Notification } from "@jupyterlab/apputils";
import type { ICellModel } from "@jupyterlab/cells";
import type { CodeMirrorEditor } from "@jupyterlab/codemirror";
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import { type At, GO, SELECT, type Selected, selectedAt, tellSelected } from "../ui/going";
import { placeOf } from "./gutter";
import type { Links } from "./links";
import { type MarkStore, within } from "./marks";
import type { Marks } from "./messages";

export interface Page {
  marks: MarkStore;
  links: Links;
  tracker: INotebookTracker;
  app: JupyterFrontEnd;
}

const nobody: ReadonlySet<number> = new Set();

export class Selection {
  private lines: readonly At[] = [];

  /** `changed`: other lines are selected. */
  constructor(
    private readonly page: Page,
    changed: () => void,
  ) {
    window.addEventListener(SELECT, (event) => {
      this.lines = (event as CustomEvent<Selected>).detail.lines ?? [];
      changed();
    });
    window.addEventListener(GO, (event) => void this.go((event as CustomEvent<At>).detail));
  }

  /** The selected lines of the cell that marks are of. */
  of(marks: Marks | null): ReadonlySet<number> {
    return marks && this.lines.length ? within(marks, this.lines) : nobody;
  }

  /** Selects a line of a cell; whether an inspector below the cell shows it. `isBreak`: among the trace breaks. */
  select(panel: NotebookPanel | null, cell: ICellModel, marks: Marks | null, line: number, isBreak: boolean): boolean {
    if (!marks) return false;
    const below = panel?.content.widgets.find(({ model }) => model.id === cell.id)?.node;
    const at: At = { file: marks.file, line, cell: marks.run };
    return tellSelected(selectedAt(at, { within: below, tab: isBreak ? "Breaks" : undefined })).taken ?? false;
  }

  /** Brings a line into sight in its cell, with the cursor on it. */
  private async go(at: At): Promise<void> {
    const found = this.page.marks.find(at);
    const panels = found ? this.page.links.panelsOf(found.kernel) : [];
    const panel = panels.find((one) => one === this.page.tracker.currentWidget) ?? panels[0];
    const index = panel?.content.widgets.findIndex(({ model }) => model.id === found?.cell) ?? -1;
    if (!panel || index < 0)
      return void Notification.info("lazynb: no cell has this line any more as it was run.", { autoClose: 4000 });
    const { content } = panel;
    this.page.app.shell.activateById(panel.id);
    content.activeCellIndex = index;
    await content.scrollToItem(index);
    const cell = content.widgets[index];
    await cell?.ready;
    const view = (cell?.editor as CodeMirrorEditor | null | undefined)?.editor;
    if (!view) return;
    content.mode = "edit";
    view.dispatch({ selection: { anchor: placeOf(view.state, at.line) }, scrollIntoView: true });
    view.focus();
  }
}
