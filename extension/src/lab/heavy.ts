/** What is loaded when it is first looked at. */

export { addStyles } from "../inspector";
export { mountInspector } from "../switched";
export { tableView } from "../views/tables";
export { timelineView } from "../views/timeline";
export { timelines } from "../model/read";
export { mountGraph } from "./picture";
