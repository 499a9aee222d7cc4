/**
 * The state of the job with an id or a key.
 *
 * - `ready`, `active`, `delayed` or `dead`: the state of the job. A job that waits for its children counts as `delayed`.
 * - `unsure`: the job is ready or active. This is the answer while more than 1,000 jobs are active; `inspectJob()` searches for the job.
 * - `lost`: the job is stored, but has no entry: the entry was deleted manually or evicted. The job does not run until `repairQueue()`
 *   finds it. For a lost job of priority 0 the answer is `ready` or `unsure`, because lists are not searched.
 * - `ended`: the job is done or removed, but its `ttlMs` is not over.
 */
export type HeldState = "ready" | "active" | "delayed" | "dead" | "lost" | "unsure" | "ended";

/**
 * The result of `addOnce()`. `id` is the added job, or the job that already has the id or key. `isReplaced`: the existing job now has the
 * data of this add.
 */
export type AddedOnce =
  | { readonly id: string; readonly isAdded: true; readonly state?: never; readonly isReplaced?: never }
  | { readonly id: string; readonly isAdded: false; readonly state: HeldState; readonly isReplaced?: true };
