import { late, leasing } from "../../lab/lies.mjs";

const firstTokens = new Map();
const firstTokenOf = ({ name, fencingToken }) => {
  if (!firstTokens.has(name)) firstTokens.set(name, fencingToken);
  return firstTokens.get(name);
};

const aLease =
  (lie) =>
  ({ createLock }) => ({ createLock: leasing(createLock, lie) });

export const lies = {
  "late-abort": aLease((lease) => ({ signal: late(lease.signal) })),
  "release-denies": aLease((lease) => ({ release: () => lease.release().then(() => "not-held") })),
  "fence-stands-still": aLease((lease) => ({ fencingToken: firstTokenOf(lease) })),
  /** The lock is right, and the worker's register accepts everything. */
  unfenced: () => ({}),
};
