/** The editors of all cells, and which marks each of them shows. */

import type { EditorView } from "@codemirror/view";
import type { Extension } from "@codemirror/state";
import type { ICellModel } from "@jupyterlab/cells";
import type { CodeEditor } from "@jupyterlab/codeeditor";
import { EditorExtensionRegistry, type IEditorExtensionFactory, type IEditorExtensionRegistry } from "@jupyterlab/codemirror";
import type { Card } from "./card";
import { type Host, lineAt, marksExtension, setChosen, setLines } from "./gutter";
import type { MarkStore } from "./marks";
import type { Line } from "./messages";

export interface Surroundings {
  marks: MarkStore;
  card: Card;
  /** The kernel of the notebook that a cell is in. */
  kernelOf(cell: ICellModel): string | undefined;
  /** Whether marks are wanted. */
  shown(): boolean;
  choose(cell: ICellModel, line: Line, onBreak: boolean): void;
  /** The lines of a cell, as they were run, that are selected. */
  chosen(cell: ICellModel): ReadonlySet<number>;
  kernel(cell: ICellModel, id: number): void;
  breaks(): void;
}

const isCell = (model: CodeEditor.IModel): model is ICellModel => (model as Partial<ICellModel>).type === "code";

export class Editors {
  private readonly open = new Map<EditorView, ICellModel>();

  constructor(private readonly around: Surroundings) {}

  register(registry: IEditorExtensionRegistry): void {
    const factory = ({ inline, model }: IEditorExtensionFactory.IOptions) =>
      inline && isCell(model) ? EditorExtensionRegistry.createImmutableExtension(this.extension(model)) : null;
    try {
      registry.addExtension({ name: "lazynb:marks", factory });
    } catch (error) {
      console.warn("lazynb's marks are registered already", error);
    }
  }

  get size(): number {
    return this.open.size;
  }

  /** Shows what is to be shown now: in all cells of all kernels, or of one, or in one cell. */
  refresh(kernel?: string, cell?: string | null): void {
    for (const [view, model] of this.open) {
      if (cell != null && model.id !== cell) continue;
      if (kernel === undefined || this.around.kernelOf(model) === kernel) this.show(view, model);
    }
  }

  /** Marks the lines that are selected now. */
  paintChosen(): void {
    for (const [view, model] of this.open)
      if (this.shows.has(view)) view.dispatch({ effects: setChosen.of(this.around.chosen(model)) });
  }

  /** Opens the card of the line that the cursor is on; false where it has no marks. */
  showCard(view: EditorView): boolean {
    const model = this.open.get(view);
    const { head } = view.state.selection.main;
    const line = model && lineAt(view.state, view.state.doc.lineAt(head).from);
    const at = view.coordsAtPos(head);
    if (!model || !line || !at) return false;
    const rect = new DOMRect(at.left, at.top, at.right - at.left, at.bottom - at.top);
    this.around.card.focus(rect, line, this.choices(model), () => view.focus());
    return true;
  }

  private choices(model: ICellModel) {
    return { kernel: (id: number) => this.around.kernel(model, id), breaks: () => this.around.breaks() };
  }

  private show(view: EditorView, model: ICellModel): void {
    const marks = this.around.shown() ? this.around.marks.of(this.around.kernelOf(model), model.id) : null;
    if (!marks && !this.shows.has(view)) return;
    if (marks) this.shows.add(view);
    else this.shows.delete(view);
    view.dispatch({ effects: [setLines.of(marks?.lines ?? []), setChosen.of(this.around.chosen(model))] });
  }

  private readonly shows = new WeakSet<EditorView>();

  private extension(model: ICellModel): Extension {
    const { around } = this;
    const host: Host = {
      opened: (view) => {
        this.open.set(view, model);
        queueMicrotask(() => this.open.has(view) && this.show(view, model)); // it is not ready yet
      },
      closed: (view) => {
        this.open.delete(view);
        around.card.hide();
      },
      point: (_, line, mark) => around.card.soon(mark, line, this.choices(model)),
      leave: () => around.card.leave(),
      choose: (line, onBreak) => {
        around.card.hide();
        around.choose(model, line, onBreak);
      },
    };
    return marksExtension(host);
  }
}
