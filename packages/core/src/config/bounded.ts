import { type Limit, settled } from "../toolkit/index.js";

/**
 * What `work` gives, if it does so in time: after the deadline this rejects with what `late` makes, after an abort with
 * the signal's reason. What comes of it later is nobody's.
 */
export const bounded = <T>(work: Promise<T>, limit: Limit, late: () => Error): Promise<T> =>
  settled<T>(
    limit,
    ({ reject }) => reject(late()),
    ({ resolve, reject }) => void work.then(resolve, reject),
  );
