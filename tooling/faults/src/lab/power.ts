import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import type { RedisNode } from "@kit/testing";

/** The append-only file that the server writes to now. */
export const appendFile = async (node: RedisNode): Promise<string> => {
  const [, folder = ""] = (await node.call("CONFIG", "GET", "dir")) as string[];
  const [, inner = ""] = (await node.call("CONFIG", "GET", "appenddirname")) as string[];
  const parts = join(folder, inner);
  const [name] = readdirSync(parts)
    .filter((file) => file.endsWith(".incr.aof"))
    .toSorted((a, b) => Number(/\.(\d+)\.incr/.exec(b)?.[1]) - Number(/\.(\d+)\.incr/.exec(a)?.[1]));
  if (name === undefined) throw new Error(`No append-only file in ${parts}`);
  return join(parts, name);
};

/** The server's log. */
export const logFile = async (node: RedisNode): Promise<string> => {
  const [, folder = ""] = (await node.call("CONFIG", "GET", "dir")) as string[];
  return join(folder, "server.log");
};

/** The number of bytes of a server's file that are not synced yet. */
export const unsyncedBytes = (file: string, notes: string): number => {
  const name = file.slice(file.lastIndexOf("/") + 1);
  const note = join(notes, `${name}.synced`);
  const synced = existsSync(note) ? Number(readFileSync(note, "latin1")) : 0;
  return statSync(file).size - synced;
};

/** Cuts a killed server's file to its synced bytes plus `kept` (0 to 1) of the rest. Returns the number of bytes cut. */
export const cutToSynced = (file: string, notes: string, kept: number): number => {
  const unsynced = unsyncedBytes(file, notes);
  const lost = unsynced - Math.floor(unsynced * kept);
  if (lost > 0) truncateSync(file, statSync(file).size - lost);
  return lost;
};

/** Cuts bytes off the end of a killed server's file, which tears its last record. */
export const tear = (file: string, bytes: number): void => {
  truncateSync(file, Math.max(0, statSync(file).size - bytes));
};

/** Changes one letter in the last value that matches. Returns whether there was one. */
export const flip = (file: string, pattern: RegExp): boolean => {
  const bytes = readFileSync(file);
  const found = [...bytes.toString("latin1").matchAll(pattern)].at(-1);
  if (!found?.[1]) return false;
  const at = found.index + found[0].indexOf(found[1]) + (found[1].length >> 1);
  bytes[at] = bytes[at] === 0x30 ? 0x31 : 0x30;
  writeFileSync(file, bytes);
  return true;
};

/** Removes all data that a killed server would load. */
export const removeData = (file: string): void => {
  rmSync(join(file, ".."), { recursive: true, force: true });
  rmSync(join(file, "../../dump.rdb"), { force: true });
};

export const copyOf = (file: string): (() => void) => {
  const copy = `${file}.whole`;
  copyFileSync(file, copy);
  return () => copyFileSync(copy, file);
};
