import { noShims } from "../lab/shims.js";
import { networkRows } from "./network.js";
import { clockRows, processRows } from "./processes.js";
import type { Fault } from "./fault.js";
import { serverRows } from "./server.js";
import { storageRows } from "./storage.js";

const isClock = ({ number }: Fault): boolean => number === 25 || number === 26;

/** Every kind of fault, in the order of the matrix. */
export const faults: readonly Fault[] = [...processRows, ...serverRows, ...networkRows, ...storageRows, ...clockRows]
  .map((fault) => (isClock(fault) ? { ...fault, whyNot: noShims } : fault))
  .toSorted((a, b) => a.number - b.number);
