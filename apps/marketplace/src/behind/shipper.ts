// Ships the shop's access log: at first the files of past days, then each file that the web server has finished.
import { readdir, unlink, writeFile } from "node:fs/promises";
import { watch } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { connect } from "@kit/core";
import { createShipper } from "@kit/logship";
import { setTimeout as sleep } from "node:timers/promises";
import { historyDays, historyFile } from "../seed/access-log.js";
import type { Place } from "../common/place.js";
import { logChannel, logConsumers } from "../common/tools.js";
import { serveMember, startLimitMs } from "./member.js";

export interface ShipperTask extends Place {
  /** The folder where the web server puts finished files. */
  readonly folder: string;
  /** How many days of history. */
  readonly days: number;
}

export interface ShipperStatus {
  readonly files: number;
  readonly lines: number;
  readonly bytes: number;
  readonly now: { readonly file: string; readonly doneBytes: number; readonly totalBytes: number | null } | null;
}

export interface ShipCall {
  readonly lines: number;
}

const limitBytes = 8 * 1024 * 1024;
const lookMs = 2_000;
const mostWaiting = 3;
const bytesPerSecond = 1_500_000;

/** Sends blocks at a limited rate, so that the progress is visible. */
async function* paced(blocks: readonly string[], signal: AbortSignal): AsyncGenerator<string> {
  for (const block of blocks) {
    yield block;
    await sleep((block.length / bytesPerSecond) * 1_000, undefined, { signal });
  }
}

serveMember(async ({ url, prefix, folder, days }: ShipperTask, report) => {
  const redis = await connect({ url, connectionName: "bazaar shipper", deadlineMs: startLimitMs });
  const shipper = createShipper(redis, logChannel, { prefix, limitBytes, consumers: logConsumers, chunkBytes: 32_768 });
  shipper.on("error", () => undefined);
  const end = new AbortController();
  let [files, lines, bytes] = [0, 0, 0];
  let now: ShipperStatus["now"] = null;
  const sendStatus = (): void => report({ files, lines, bytes, now } satisfies ShipperStatus);
  shipper.on("progress", ({ file, doneBytes, totalBytes }) => {
    now = { file, doneBytes, totalBytes: totalBytes ?? null };
    sendStatus();
  });
  const shipped = (file: { lines: number; textBytes: number; wasShipped: boolean }): void => {
    now = null;
    if (!file.wasShipped) {
      files++;
      lines += file.lines;
      bytes += file.textBytes;
    }
    sendStatus();
  };

  // One file at a time, in order of request.
  let last: Promise<unknown> = Promise.resolve();
  const inTurn = (work: () => Promise<unknown>): void => {
    last = last.then(work).catch(() => undefined);
  };
  const send = async (name: string, blocks: readonly string[]): Promise<void> => {
    shipped(await shipper.send(name, paced(blocks, end.signal), { id: name, signal: end.signal }));
  };

  const look = async (): Promise<void> => {
    const found = (await readdir(folder)).filter((name) => /^access-\d+\.log$/.test(name)).sort();
    for (const name of found) {
      const path = join(folder, name);
      shipped(await shipper.add(path, { signal: end.signal }));
      // The whole file is in Redis now.
      await unlink(path);
    }
  };
  const history = async (day: string): Promise<void> => {
    const name = `history-${day}.log.gz`;
    const path = join(folder, name);
    await writeFile(path, await promisify(gzip)(historyFile(day).join("")));
    // The name is the id, so a restarted shipper does not ship the file again.
    shipped(await shipper.add(path, { id: name, signal: end.signal }));
    await unlink(path);
  };
  for (const day of historyDays(Date.now(), days)) inTurn(() => history(day));
  const watcher = watch(folder, () => inTurn(look));
  const timer = setInterval(() => inTurn(look), lookMs);
  sendStatus();

  let [extra, waiting] = [0, 0];
  return {
    /** The name of the file, or null while too many others wait. */
    onCall: ({ lines: wanted }: ShipCall): string | null => {
      if (waiting >= mostWaiting) return null;
      waiting++;
      const name = `delivery-${Date.now()}-${++extra}.log`;
      const [day = ""] = historyDays(Date.now(), 1);
      inTurn(() => send(name, historyFile(day, wanted, name)).finally(() => waiting--));
      return name;
    },
    stop: async () => {
      end.abort();
      watcher.close();
      clearInterval(timer);
      await shipper.close({ timeoutMs: 300 }).catch(() => undefined);
      await redis.close();
    },
  };
});
