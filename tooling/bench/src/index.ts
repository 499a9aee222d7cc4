/** The parts from which a suite outside this workspace is made. */
export { type Catalog, catalogOf, type Definition } from "./implementation.js";
export type { Team } from "./lab.js";
export { sentOf } from "./sent.js";
export { percentile } from "./statistics.js";
export { atLeast, type Case, type Check, type OpenJobs, type Suite } from "./suite.js";
