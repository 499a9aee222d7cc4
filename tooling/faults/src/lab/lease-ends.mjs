// Ends of leases as the server confirmed them, read off the wire and not from the package.

const leaseEnds = new Map();
const endListeners = new Map();

/** Notes that, by a reply of the server, the lease lasts at least until `endsAt`. */
export const confirm = (token, endsAt) => {
  leaseEnds.set(token, Math.max(leaseEnds.get(token) ?? 0, endsAt));
  for (const listener of endListeners.get(token) ?? []) listener();
};

/** The confirmed end of a lease, and a listener for each later one. */
export const follow = (token, listener) => {
  endListeners.set(token, [...(endListeners.get(token) ?? []), listener]);
  return () => leaseEnds.get(token);
};

/** Ends what is known of a lease. */
export const forget = (token) => {
  endListeners.delete(token);
  leaseEnds.delete(token);
};

/**
 * Confirms the lease ends in the reply to a renewal. Each argument is a term and a record, whose token is `tokenOf` it. A term of 0 only
 * looks the lease up, and says nothing about its end.
 */
export const confirmRenewals = (args, answer, sentAt, tokenOf) => {
  for (const [i, text] of args.entries()) {
    const [termMs, record] = text.split(" ");
    const isExtended = Number(termMs) > 0 && Number(answer?.[i + 1]) === 1;
    if (record !== undefined && isExtended) confirm(tokenOf(record), sentAt + Number(termMs));
  }
};
