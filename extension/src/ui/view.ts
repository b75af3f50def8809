/** What a view is to the inspector that shows it. */

import type { Questions } from "./asking";
import type { Comm } from "../model/comm";
import type { Store } from "../model/store";

export interface Context {
  store: Store;
  comm: Comm;
  questions: Questions;
  /** Aborted when the inspector goes. */
  signal: AbortSignal;
}

export interface View {
  element: HTMLElement;
  /** The selection changed, or the view came to the front. Default: the things in it are lit. */
  update?(): void;
  /** Something was clicked elsewhere: bring it into sight. */
  reveal?(): void;
  /** "/" was pressed. */
  search?(): void;
  /** The view came to the front and has a size now. */
  shown?(): void;
  dispose?(): void;
}

export type MakeView = (context: Context) => View;
