import { noShims } from "../lab/shims.js";
import { addressFaults } from "./address.js";
import { reshardFaults } from "./reshard.js";
import { networkFaults } from "./network.js";
import { clockFaults, processFaults } from "./processes.js";
import type { Fault } from "./fault.js";
import { serverFaults } from "./server.js";
import { storageFaults } from "./storage.js";

const isClock = ({ kind }: Fault): boolean => kind.includes("clock jumps");

/** All faults that need one server. */
export const faults: readonly Fault[] = [
  ...processFaults,
  ...serverFaults,
  ...networkFaults,
  ...storageFaults,
  ...clockFaults,
].map((fault) => (isClock(fault) ? { ...fault, whyNot: noShims } : fault));

/** Faults that make the servers of keys change, and lose nothing. */
export const movingFaults: readonly Fault[] = [...addressFaults, ...reshardFaults];
