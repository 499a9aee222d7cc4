import { type Connection, keyspace } from "@kit/core";
import { exitCodes, Failure } from "../exit-codes.js";

/** What to look at, and how closely. */
export interface InspectOptions {
  readonly prefix: string;
  readonly keys?: true;
  /** Of a semaphore: this one alone. */
  readonly tenant?: string;
}

/** A report in words, as names and values. */
export type Facts = readonly (readonly [name: string, value: string])[];

/** A key as it stands, without its value: that may be the proof of holding. */
export interface RawKey {
  readonly key: string;
  readonly type: string;
  /** What is left of its life; null: it has no end. */
  readonly msLeft: number | null;
}

/** What a package keeps under a name. */
export const rawKeys = async (
  redis: Connection,
  what: string,
  name: string,
  prefix: string,
  parts: readonly string[],
): Promise<readonly RawKey[]> => {
  const { key } = keyspace(what, prefix);
  const looks = parts.map(async (part): Promise<RawKey> => {
    const full = key(name, part);
    const [type, life] = await Promise.all([redis.call("TYPE", full), redis.call("PTTL", full)]);
    return { key: full, type: String(type), msLeft: Number(life) < 0 ? null : Number(life) };
  });
  return (await Promise.all(looks)).filter(({ type }) => type !== "none");
};

/** `keys` undefined: they were not asked for. */
export const keyFacts = (keys: readonly RawKey[] | undefined): Facts => {
  if (keys?.length === 0) return [["key", "none"]];
  return (keys ?? []).map(({ key, type, msLeft }) => [
    "key",
    `${key}  ${type}, ${msLeft === null ? "no expiry" : `expires in ${seconds(msLeft)}`}`,
  ]);
};

export const seconds = (ms: number): string =>
  ms < 10_000 ? `${(ms / 1_000).toFixed(1)} s` : `${String(Math.round(ms / 1_000))} s`;

/** Who waits: so many, and the first of them as they are called. */
export const waiterWords = (waiters: number, first: readonly string[]): string =>
  waiters === 0 ? "nobody" : `${String(waiters)}: ${first.join(", ")}${waiters > first.length ? ", …" : ""}`;

/**
 * Loads the package that knows what is inspected.
 *
 * @throws {Failure} it is not installed.
 */
export const packageBeside = async <T>(what: string, load: () => Promise<T>): Promise<T> => {
  try {
    return await load();
  } catch (error) {
    if ((error as { code?: unknown }).code !== "ERR_MODULE_NOT_FOUND") throw error;
    const name = `@kit/${what}`;
    throw new Failure(`kit inspect ${what} needs ${name} beside it: npm install ${name}`, exitCodes.usage);
  }
};
