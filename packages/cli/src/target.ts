import { exitCodes, Failure } from "./exit-codes.js";

/**
 * An address without user name and password, for everything that is printed. Only for addresses that `connect()` has
 * understood: of others nobody knows where the password ends.
 */
export const withoutCredentials = (url: string): string => url.replace(/^([a-z+]+:\/\/)[^@/]*@/i, "$1");

/** The address that is meant when none is given. */
export const givenUrl = (url: string | undefined): string => {
  // A script whose variable is not set must not look at another server than it means.
  if (url === "")
    throw new Failure("--url is empty; leave it out, or name a Redis: redis://127.0.0.1:6379", exitCodes.usage);
  return url ?? (process.env["REDIS_URL"] || "redis://127.0.0.1:6379");
};

/** Whether an address of a host, as a URL or a server names it, can only be reached on this machine. */
export const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "::1" || /^(::ffff:)?127\./.test(host);
