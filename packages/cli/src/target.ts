import { exitCodes, Failure } from "./exit-codes.js";

/**
 * An address without user name and password, for all output. Pass only addresses that `connect()` has parsed: in other
 * addresses the end of the password is unknown.
 */
export const withoutCredentials = (url: string): string => url.replace(/^([a-z+]+:\/\/)[^@/]*@/i, "$1");

const defaultUrl = "redis://127.0.0.1:6379";

/** The given address, or the default one. */
export const givenUrl = (url: string | undefined): string => {
  // A script whose variable is not set must not use the default server.
  if (url === "")
    throw new Failure(`--url is empty. Omit it, or set it to an address such as ${defaultUrl}`, exitCodes.usage);
  return url ?? (process.env["REDIS_URL"] || defaultUrl);
};

/**
 * A note that names the default server, if the user named no server and the command may change data, or if REDIS_URL is set
 * but empty.
 */
export const defaultNote = (url: string | undefined, mayChange: boolean): string | undefined => {
  const variable = process.env["REDIS_URL"];
  if (url !== undefined || variable || (variable === undefined && !mayChange)) return undefined;
  return `${variable === undefined ? "no --url and no REDIS_URL" : "REDIS_URL is empty"}: using ${defaultUrl}`;
};

/** Whether a host, as a URL or a server names it, can only be reached on this machine. */
export const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "::1" || /^(::ffff:)?127\./.test(host);
