import {
  bornOf,
  hasContent,
  isPair,
  type Known,
  type LocalFile,
  longerOf,
  type OpenFile,
  twinOf,
} from "../bytes/files.js";
import { formatPosition, parsePosition } from "../bytes/reading.js";
import type * as scripts from "../scripts/index.js";
import type { Listed } from "./commands.js";

type Refused = Extract<scripts.Claim, { state: "refused" }>;

/** After this time a file is compared again with a file that is being processed. */
export const retryMs = 100;

/** A file in its current state. A changed file has another key. */
export const keyOf = ({ id, stamp }: LocalFile): string => `${id} ${stamp}`;

/** The other files and facts that a comparison of a file needs. */
export interface Comparison {
  /** Whether the file has the text of its record. */
  readonly isSame: boolean;
  readonly files: readonly Listed[];
  /** Files that this run leaves out. */
  readonly skipped: ReadonlySet<string>;
  /** When each file that resembles another existing file was first seen in that state. */
  readonly alike: Map<string, number>;
  readonly facts: (fields: readonly string[], signal: AbortSignal) => Promise<(string | null)[]>;
  readonly signal: AbortSignal;
}

/** The content of a file, and the same position in this file. Both are empty if the file has no known content. */
export interface Agreement {
  readonly content: string;
  readonly position: string;
  readonly from: string;
  /** The name of a file with the same text up to `to`. This file is a second one. */
  readonly copy?: { readonly of: string; readonly to: number } | undefined;
  /** The name of a file with the same text that no longer exists. */
  readonly moved?: string | undefined;
}

const none = { content: "", position: "", from: "" };

/**
 * Finds the content of a file among the contents with the same beginning: the longest whose counted text is the start of the file.
 * Otherwise the content that starts with the whole file, if an existing file has it. Refused while this cannot be known.
 */
export const agreementOf = async (
  file: LocalFile,
  opened: OpenFile,
  contents: readonly scripts.Alike[],
  { isSame, files, skipped, alike, facts, signal }: Comparison,
): Promise<Refused | Agreement> => {
  const known: (scripts.Alike & Known & { readonly other: LocalFile | undefined })[] = [];
  const others = new Map(files.filter((one) => one.file.id !== file.id).map((one) => [one.file.id, one.file]));
  const fields = contents.flatMap((one) => [`${one.file}:content`, `${one.file}:stamp`]);
  const found = contents.some((one) => others.has(one.file)) ? await facts(fields, signal) : [];
  for (const [index, one] of contents.entries()) {
    const holder = others.get(one.file);
    const [content, stamp] = found.slice(2 * index, 2 * index + 2);
    // An inode that has another content, or is used again, does not count.
    const isThere = holder && (content ?? one.file) === one.content && bornOf(stamp ?? "") === bornOf(holder.stamp);
    const other = isThere ? holder : undefined;
    // A content that is not finished there cannot be compared yet.
    if (one.msLeft > 0) return { state: "refused", msLeft: one.msLeft };
    if (!one.isDone && other && !skipped.has(keyOf(other))) return { state: "refused", msLeft: retryMs };
    known.push({ ...one, ...parsePosition(one.position), other });
  }
  const comparable = isSame ? known.map((one) => ({ ...one, other: undefined })) : known;
  const { twin, hasMore, held, crcs, end } = await twinOf(file, opened.text(), comparable, signal);
  const isDecided = twin && !hasMore;
  const longer = isDecided || !end ? [] : known.filter(({ offset }) => offset > end);
  let whole: LocalFile | undefined;
  for (const { content, position, other } of longer) {
    if (whole || !other) continue;
    // There can be many, and each would be read up to the length of this text. If a shorter content matches, compressed files are not read.
    if (!(await opened.isWithin(other, !twin && !held))) continue;
    if (!(await hasContent(other, { offset: end!, crc: crcs.get(end!)! }, signal))) continue;
    if (isPair(file, other)) return { content, position, from: "" };
    whole = other;
  }
  const of = whole ?? held?.other;
  // Not a copy of it. The other file may have been truncated since the comparison, so check that last.
  const isApart =
    !whole && of && !opened.isGzip && !(await opened.isWithin(of)) && (await hasContent(of, held!, signal));
  // The other file may have been truncated since this copy was opened. Then the copy is complete now.
  const isOld = !whole && longer.length > 0 && (await opened.now()).stamp !== opened.was.stamp;
  if (isOld || (of && !isApart && !isDecided)) {
    // Either a second file, or a copy whose original `copytruncate` truncates within a second.
    const key = isOld ? `${file.id} ${String(bornOf(file.stamp))}` : keyOf(file);
    const since = alike.get(key) ?? performance.now();
    alike.set(key, since);
    const msLeft = Math.ceil(since + 1_000 - performance.now());
    if (msLeft > 0) return { state: "refused", msLeft };
  }
  if (twin && (!of || (held && !whole))) {
    const { content, position, offset, crc, other, name } = twin;
    const [stored, skip] = opened.isGzip ? [0, offset] : [offset, 0];
    // A compressed file is expected to have the text of another one. Nothing is counted yet of a file whose first commit failed.
    const isMoved = !other && !isSame && !opened.isGzip && offset > 0;
    return { content, position, from: formatPosition({ offset, stored, skip, crc }), ...(isMoved && { moved: name }) };
  }
  const name = (of ?? longerOf(known, end))?.name;
  return { ...none, copy: name === undefined ? name : { of: name, to: (whole ? end : held?.offset) ?? end! } };
};
