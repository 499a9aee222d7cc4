export { keepHistory, type HistoryBounds } from "./history.js";
