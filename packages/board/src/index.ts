export { createBoard } from "./board.js";

export type { Board } from "./board.js";
export type { Authorized, BoardAction, BoardOptions, BoardThing, JobValue } from "./options.js";
