import type { Connection } from "@kit/core";
import { type Facts, secondsText } from "@kit/core/toolkit";

/** A key as it is now, without its value, which may be a token. */
export interface RawKey {
  readonly key: string;
  readonly type: string;
  /** The time until the key expires; null if it never expires. */
  readonly msLeft: number | null;
}

/** The existing ones of these keys. */
export const keysOf = async (redis: Connection, keys: readonly string[]): Promise<readonly RawKey[]> => {
  const looks = keys.map(async (key): Promise<RawKey> => {
    const [type, life] = await Promise.all([redis.call("TYPE", key), redis.call("PTTL", key)]);
    return { key, type: String(type), msLeft: Number(life) < 0 ? null : Number(life) };
  });
  return (await Promise.all(looks)).filter(({ type }) => type !== "none");
};

export const keyFacts = (keys: readonly RawKey[]): Facts => {
  if (keys.length === 0) return [["key", "none"]];
  return keys.map(({ key, type, msLeft }) => [
    "key",
    `${key}  ${type}, ${msLeft === null ? "no expiry" : `expires in ${secondsText(msLeft)}`}`,
  ]);
};
