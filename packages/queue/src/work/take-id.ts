/** The length of a take id, in front of each member of `leases`: seven characters of its worker, and its number in five. */
export const takeIdWidth = 12;
export const workerWidth = 7;

/** How many takes of a worker the server can record: two calls may be under way, and one wait. */
export const slots = 3;

/** The slot under which a take is recorded. */
export const slotOf = (takeId: string): number => Number.parseInt(takeId.slice(workerWidth), 36) % slots;
