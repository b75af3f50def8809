/** What is loaded when it is first looked at. */

export { addStyles, mountInspector } from "../inspector";
export { tableView } from "../views/tables";
export { mountGraph } from "./picture";
