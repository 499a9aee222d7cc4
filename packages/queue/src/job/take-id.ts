/** The length of a take id, with which each member of `leases` starts: seven characters for its worker, and five for its number. */
export const takeIdWidth = 12;
export const workerWidth = 7;

/** How many takes of a worker the server can record: two calls in progress, and one wait. */
export const slots = 3;

/** The slot under which a take is recorded. */
export const slotOf = (takeId: string): number => Number.parseInt(takeId.slice(workerWidth), 36) % slots;
