import { createHash } from "node:crypto";

/**
 * The parts in which messages of one kind differ, the longest forms first. A pattern that may start at many positions must
 * end soon after each of them: a text can be user input of a megabyte.
 */
const masks: readonly (readonly [pattern: RegExp, name: string | ((found: string) => string)])[] = [
  [/(?<!\\)"(?:[^"\\]|\\.)*"|(?<!\\)'(?:[^'\\\n]|\\.)*'(?=\W|$)|`[^`\n]*`/g, "<text>"],
  [/[“„][^“”„\n]*[“”]|[‘‚](?:[^‘’‚\n]|’(?=\p{L}))*[‘’]|«[^«»\n]*»/gu, "<text>"],
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, "<uuid>"],
  [/\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]+)+\b/g, "<email>"],
  [/\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?/g, "<time>"],
  [/\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b/g, "<address>"],
  [/\b(?=\d*[a-f])[0-9a-f]{8,}\b|\b0x[0-9a-f]+\b/gi, "<hex>"],
  [/\b[0-9a-z]{10,}\b/gi, (word) => (isId(word) ? "<id>" : word)],
  [/(?<![\w<])[+-]?\d[\d_]*(?:[.,]\d+)*(?:e[+-]?\d+)?|\d+/gi, "<number>"],
];

const part = /[A-Z]?[a-z]+|[A-Z]+|\d+/g;

/**
 * Whether a word of letters and digits is an id, such as base62, nanoid, cuid and ULID generate. An id has a digit. Its
 * capitals, lowercase letters and digits change more often than in a name like `Base64Decoder`.
 */
const isId = (word: string): boolean => /\d/.test(word) && word.length < 3 * (word.match(part)?.length ?? 0);

/** The message without its variable parts: numbers, ids, addresses, instants, quoted parts. */
export const masked = (text: string): string =>
  masks.reduce((rest, [pattern, name]) => rest.replace(pattern, name as string), text);

/** One text for all messages that are counted together: 22 characters, whatever their length. */
export const fingerprintOf = (text: string): string => createHash("sha1").update(text).digest("base64url").slice(0, 22);

/** The beginning of a text that has at most `maxBytes` in UTF-8, cut between code points. */
export const cutTo = (text: string, maxBytes: number): string => {
  // Each UTF-16 unit takes at most three bytes.
  if (text.length * 3 <= maxBytes || Buffer.byteLength(text) <= maxBytes) return text;
  const bytes = Buffer.from(text.slice(0, maxBytes));
  let end = Math.min(maxBytes, bytes.length);
  // 10xxxxxx continues a code point.
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--;
  return bytes.toString("utf8", 0, end);
};
