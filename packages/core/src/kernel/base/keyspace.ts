import { KitError } from "./errors.js";
import { matching, type Rule, text } from "./rules.js";

const longestNameBytes = 512;
// The escape character, and characters that would move the hash tag, split the key, or let a name look like another one in a
// terminal or a log: controls, line breaks, and marks that turn the direction of the text.
const special = /[%{}:\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;

/** Names that match this need no escaping. */
const plain = /^[\w.-]{1,512}$/;

const escapeName = (name: string): string => {
  if (typeof name === "string" && plain.test(name)) return name;
  if (typeof name !== "string" || name.length === 0)
    throw new KitError(
      "KIT_NAME",
      `A name must be text of 1 to ${String(longestNameBytes)} bytes, got ${name === "" ? "an empty string" : typeof name}`,
    );
  if (name.length > longestNameBytes || Buffer.byteLength(name) > longestNameBytes)
    throw new KitError("KIT_NAME", `A name may have at most ${String(longestNameBytes)} bytes in UTF-8`);
  // Half a surrogate pair becomes U+FFFD on the wire: two names would become one key.
  if (/\p{Surrogate}/u.test(name)) throw new KitError("KIT_NAME", "A name must be well-formed Unicode");
  return name.replace(special, encodeURIComponent);
};

/** Builds the keys of one package: `<prefix>:<package>:{<name>}:<part>`. */
export interface Keyspace {
  /**
   * The key of one part of a named object. All parts of a name share a hash tag, so they are in the same Cluster slot. Different
   * names give different keys: braces, colons, percent signs, control characters and marks that change text direction are escaped.
   *
   * @throws {KitError} `KIT_NAME`: the name is empty, over 512 bytes, or not well-formed Unicode.
   */
  key(name: string, part: string): string;
  /** The start of all keys of one name: `key(name, part)` is `base(name) + part`. */
  base(name: string): string;
}

/**
 * Builds the keys of `packageName` under `prefix`.
 *
 * @throws {TypeError | RangeError} `prefix` is not 1 to 64 characters, or has braces, white space, control characters, or one of
 * `*?[]\`.
 */
export const keyspace = (packageName: string, prefix = "kit"): Keyspace => {
  const head = `${checkPrefix(prefix)}:${packageName}:{`;
  const base = (name: string): string => `${head}${escapeName(name)}}:`;
  return { base, key: (name, part) => base(name) + part };
};

/**
 * The start of keys, before the hash tag. Patterns for SCAN and ACLs start with this prefix, so it must not contain pattern
 * characters.
 */
export const prefixRule: Rule<string, string> = matching(
  text(64, "kit"),
  /^[^{}*?[\]\\\s\p{C}]+$/u,
  "to have no braces, white space, control characters or * ? [ ] \\",
);

/** @throws {TypeError | RangeError} the prefix cannot be used before a hash tag. */
export const checkPrefix = (prefix: string): string => prefixRule.check("prefix", prefix);

/** Decodes a stored name. If another program stored it with an invalid escape, returns it unchanged. */
export const decodedName = (stored: string): string => {
  try {
    return decodeURIComponent(stored);
  } catch {
    return stored;
  }
};

/** The name in a key that {@link keyspace} built: `item:42` for `kit:lock:{item%3A42}:lease`. Undefined if it has none. */
export const nameIn = (key: string): string | undefined =>
  /\{([^}]+)\}/.exec(key)?.[1]?.replace(/(?:%[0-7][0-9A-F]|%[C-F][0-9A-F](?:%[89AB][0-9A-F])+)/g, decodedName);

/** The subject of a key, for messages: the name in it, in quotes. If it has no name, the key itself. */
export const subjectOf = (key: string): string => {
  const name = nameIn(key);
  return name === undefined ? key : JSON.stringify(name);
};

const crcTable = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
  return crc & 0xffff;
});

/** The Cluster slot of a key: CRC16 (XMODEM) of its hash tag, or of the whole key, modulo 16384. */
export const slotOf = (key: string): number => {
  const open = key.indexOf("{");
  const close = open < 0 ? -1 : key.indexOf("}", open + 1);
  const tag = close > open + 1 ? key.slice(open + 1, close) : key;
  let crc = 0;
  for (const byte of Buffer.from(tag)) crc = ((crc << 8) & 0xffff) ^ (crcTable[((crc >> 8) ^ byte) & 0xff] ?? 0);
  return crc % 16384;
};
