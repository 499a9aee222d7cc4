import { noShims } from "../lab/shims.js";
import { networkRows } from "./network.js";
import { clockRows, processRows } from "./processes.js";
import type { Row } from "./row.js";
import { serverRows } from "./server.js";
import { storageRows } from "./storage.js";

const isClock = ({ number }: Row): boolean => number === 25 || number === 26;

/** Every kind of fault, in the order of the matrix. */
export const rows: readonly Row[] = [...processRows, ...serverRows, ...networkRows, ...storageRows, ...clockRows]
  .map((row) => (isClock(row) ? { ...row, whyNot: noShims } : row))
  .toSorted((a, b) => a.number - b.number);
