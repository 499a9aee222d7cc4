import { dirname } from "node:path";
import {
  bornOf,
  changedError,
  hasContent,
  headBytes,
  type Known,
  listFiles,
  type LocalFile,
  longerOf,
  OpenFile,
  twinOf,
} from "../bytes/files.js";
import type { LogConnection } from "../connection.js";
import { isAboutContent } from "../errors.js";

/** If more sources share their first KiB, that is a header, and they are not compared for it. The scripts have the same number. */
const mostNear = 8;

/** A source whose text the channel has, or has had, up to `offset`. */
interface Shipped extends Known {
  readonly source: string;
  readonly isDone: boolean;
  readonly other: LocalFile | undefined;
  /** Whether the source has the file's longest beginning. */
  readonly isLike: boolean;
}

/** An inode with its birth: another file may get the number. The identity of a source starts with it. */
const containerOf = ({ id, stamp }: LocalFile): string => `${id}.${String(bornOf(stamp))}`;

/** How to look for a file's identity. */
export interface Looking {
  readonly signal: AbortSignal;
  /** For a file of a followed log: whether it is being written, was rotated away, or only matters if the channel knows it. */
  readonly log?: "live" | "rotated" | "continued";
  /** Called with the name of a file with the same text up to `to`, or with the identity of a similar file that no longer exists. */
  readonly onCopy: (of: string, to: number) => void;
  /** Called with the identity of a shipped source that no longer exists and has the same text. */
  readonly onMoved: (of: string, to: number) => void;
}

/**
 * The identity by which the channel knows a file: perhaps from when it had fewer lines, or from when another file had its content.
 * Otherwise the file's first own identity. Undefined if only a known file matters, and the channel does not know this one.
 */
export const identityOf = async (
  connection: LogConnection,
  file: LocalFile,
  opened: OpenFile,
  looking: Looking,
): Promise<string | undefined> => {
  const { signal, log } = looking;
  const { beginnings } = await opened.identify("");
  const container = containerOf(file);
  // A source with more than a KiB is listed by its first KiB as well.
  const nearAt = beginnings.findIndex((beginning) => beginning.startsWith("1024-"));
  const near = beginnings[nearAt] ?? "";
  const own = beginnings.map((beginning, at) => `${container} ${at < nearAt ? `${near} ` : ""}${beginning}`);
  const fields = [...own, ...beginnings.map((beginning) => `text ${beginning}`), `near ${near}`];
  const found = await connection.fields("sources", fields, signal);
  const index = own.findIndex((_, at) => found[at] !== null);
  if (index >= 0) return own[index]!;
  const [like = [], ...others] = found.slice(own.length).map((list) => list?.split("\n").filter(Boolean) ?? []);
  const sharing = others.pop() ?? [];
  if (sharing.length <= mostNear) {
    others.push(sharing);
    // A longer source with the first KiB of a file of less than 4 KiB may have all of it.
    if (!beginnings[0]!.startsWith("4096-")) like.push(...sharing);
  }
  const alike = new Set([...like, ...others.flat()]);
  const twin =
    alike.size > 0 ? await sourceLike(connection, file, opened, [...alike], new Set(like), looking) : undefined;
  return twin ?? (log === "continued" ? undefined : own[0]!);
};

/** Finds the source whose shipped text is the start of the file, among the sources with a beginning of the file. */
const sourceLike = async (
  connection: LogConnection,
  file: LocalFile,
  opened: OpenFile,
  sources: readonly string[],
  like: ReadonlySet<string>,
  { signal, log, onCopy, onMoved }: Looking,
): Promise<string | undefined> => {
  const near = await listFiles(dirname(file.path), undefined, "natural");
  const [texts, bytes]: [Shipped[], Shipped[]] = [[], []];
  let unsent: string | undefined;
  const others = new Map(near.filter(({ id }) => id !== file.id).map((one) => [containerOf(one), one]));
  const found = (await connection.fields("sources", sources, signal)).map((value) => value?.split(" ") ?? []);
  const isOpen = (values: readonly string[]): boolean => values.length < 2;
  const names = ["text", "crc", "lines", "codec", "stored", "state"];
  const open = found.filter(isOpen).flatMap(([id = ""]) => names.map((name) => `${id}:${name}`));
  const facts = open.length > 0 ? await connection.fields("files", open, signal) : [];
  for (const [index, source] of sources.entries()) {
    const values = isOpen(found[index]!) ? facts.splice(0, names.length) : found[index]!.slice(1);
    const [text, crc, , codec, stored, state] = values;
    const isBytes = codec === "member";
    const other = others.get(source.split(" ", 1)[0]!);
    const known = {
      source,
      isDone: state !== "open",
      offset: Number(isBytes ? stored : text),
      crc: Number(crc),
      other,
      isLike: like.has(source),
    };
    // A source without committed text cannot be compared.
    if (known.offset > 0) (isBytes ? bytes : texts).push(known);
    else if (!known.isDone && opened.isGzip && log && (await isGone(known, file, signal))) unsent ??= source;
  }
  let copy: Parameters<Looking["onCopy"]> | undefined;
  for (const [known, text] of [
    [texts, opened.text()],
    [bytes, opened.read(0)],
  ] as const) {
    const { twin, hasMore, held, crcs, end } = await twinOf(file, text, known, signal);
    // A file often starts with a former file's text, such as a header. A former file rarely grows in another inode.
    const isHeader = twin && known === texts && !twin.other && twin.offset <= headBytes;
    const isNext = twin?.isDone && (hasMore ? log !== undefined || isHeader : log === "live");
    if (twin?.isDone && hasMore && !isNext) throw changedError(file.name);
    if (twin && !isNext) {
      // A compressed file is expected to have the text of another one.
      if (twin.isDone && !twin.other && !opened.isGzip) onMoved(twin.source, twin.offset);
      return twin.source;
    }
    let [of, to] = [held?.other?.name, held?.offset ?? end!];
    // A live file is no copy. Many files may have the same header, so only a few are compared.
    const longer = known.filter(({ isLike, other, offset }) => isLike && other && offset > (end ?? Infinity));
    for (const { other } of log === "live" ? [] : longer.slice(-9)) {
      const isWhole =
        (await opened.isWithin(other!, true)) &&
        (await hasContent(other!, { offset: end!, crc: crcs.get(end!)! }, signal));
      if (!isWhole) continue;
      [of, to] = [other!.name, end!];
      break;
    }
    if (!of && twin) to = twin.offset;
    of ??= (twin ?? longerOf(known, end))?.source;
    if (of && log !== "continued") copy ??= [of, to];
  }
  if (copy) onCopy(...copy);
  return unsent;
};

/**
 * Whether the file of an open source without committed text no longer exists. A gzip file with the same start then has its text, or the text of
 * another file of the log, which is also missing. A source of another device can belong to another host, so its file is not "gone".
 */
const isGone = async (
  { source, other }: Pick<Shipped, "source" | "other">,
  { id }: LocalFile,
  signal: AbortSignal,
): Promise<boolean> => {
  if (source.split("-", 1)[0] !== id.split("-", 1)[0]) return false;
  const opened = other && (await OpenFile.open(other));
  try {
    signal.throwIfAborted();
    const { beginnings } = (await opened?.identify("")) ?? { beginnings: [] };
    return !beginnings.some((beginning) => source.endsWith(` ${beginning}`));
  } catch (error) {
    if (isAboutContent(error)) return true;
    throw error;
  } finally {
    await opened?.close();
  }
};
