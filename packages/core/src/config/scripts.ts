import { defineScript } from "../index.js";
import historySource from "./scripts/history.lua";
import readSource from "./scripts/read.lua";
import setSource from "./scripts/set.lua";

/** Identifies one write, even if a failover lost it and another write got the same revision. */
export interface ConfigVersion {
  /** The server's time in microseconds at the entry's first write. It changes if the whole entry was lost or deleted. */
  readonly epoch: string;
  /** Counts the writes of an epoch, starting at 1. */
  readonly revision: number;
  /** When it was written, on the server's clock: epoch milliseconds, with microseconds as decimals. */
  readonly at: number;
}

/** A stored entry. */
export interface StoredEntry {
  readonly version: ConfigVersion;
  readonly text: string;
}

/** A write in the history. */
export interface KeptEntry extends StoredEntry {
  readonly author: string;
}

const versionOf = (epoch: unknown, revision: unknown, at: unknown): ConfigVersion =>
  Object.freeze({ epoch: String(epoch), revision: Number(revision), at: Number(at) / 1_000 });

/** The version in the form of the scripts. */
export const versionText = ({ epoch, revision, at }: ConfigVersion): string =>
  `${epoch}:${String(revision)}:${String(Math.round(at * 1_000))}`;

export const set = defineScript({
  name: "config.set",
  source: setSource,
  keys: ["entry", "history"],
  args: ["op", "expected", "author", "value", "maxHistory", "channel"],
  idempotent: true,
  reply: (raw): { readonly isWritten: boolean; readonly version: ConfigVersion | undefined } => {
    const [code, epoch, revision, at] = raw as [unknown, unknown, unknown, unknown];
    return {
      isWritten: Number(code) === 1,
      version: epoch === undefined ? undefined : versionOf(epoch, revision, at),
    };
  },
});

export const read = defineScript({
  name: "config.read",
  source: readSource,
  keys: ["entry"],
  args: [],
  readonly: true,
  reply: (raw): StoredEntry | undefined => {
    const [epoch, revision, at, text] = raw as [unknown, unknown, unknown, unknown];
    return epoch === undefined ? undefined : { version: versionOf(epoch, revision, at), text: String(text) };
  },
});

export const history = defineScript({
  name: "config.history",
  source: historySource,
  keys: ["entry", "history"],
  args: ["limit", "revision"],
  readonly: true,
  reply: (raw): readonly KeptEntry[] =>
    (raw as unknown[]).flatMap((kept) => {
      const [epoch = "", revision = "", at = "", , author = "", text] = String(kept).split("\t");
      // A damaged line does not hide the others.
      if (text === undefined || ![epoch, revision, at].every((part) => /^\d{1,16}$/.test(part))) return [];
      return [{ version: versionOf(epoch, revision, at), author, text }];
    }),
});
