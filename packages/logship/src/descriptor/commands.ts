import { stat } from "node:fs/promises";
import { type CliCommand, type CommandCall, counted, type InspectCall, inTime, onAbort } from "@kit/core/toolkit";
import { isAboutContent } from "../errors.js";
import {
  createReceiver,
  createShipper,
  LogshipError,
  type ReceivedFile,
  type ShippedFile,
  type ShipperEvents,
  type SkippedFile,
} from "../index.js";
import { runRules } from "../options.js";
import { shared, inParallel } from "../signals.js";
import { bytesText, progressText } from "./progress.js";

/** The minimum time in ms between two lines of progress, if it is not drawn on a terminal. */
const everyMs = 1_000;
const lineFeed = 10;

/** Shows progress: in place on a terminal, otherwise as lines, at most one per second. */
const progressNotifier = ({ output, isSet }: CommandCall, writesLines: boolean) => {
  let toldAt = -Infinity;
  /** For each file, the bytes that were done at its first event. An earlier run may have done them. */
  const begun = new Map<string, { readonly at: number; readonly bytes: number }>();
  return (name: string, doneBytes: number, totalBytes: number | undefined): void => {
    if (isSet("quiet")) return;
    const now = performance.now();
    const first = begun.get(name);
    if (doneBytes === totalBytes) begun.delete(name);
    else if (!first || first.bytes > doneBytes) begun.set(name, { at: now, bytes: doneBytes });
    const rate = first && now > first.at ? ((doneBytes - first.bytes) / (now - first.at)) * 1_000 : undefined;
    const text = progressText(name, doneBytes, totalBytes, rate);
    if (output.progress) output.progress(text);
    else if (writesLines && now - toldAt >= everyMs) {
      toldAt = now;
      void output.line({ event: "progress", file: name, doneBytes, totalBytes: totalBytes ?? null }, text);
    }
  };
};

const shippedText = ({ name, lines, textBytes, storedBytes, wasShipped }: ShippedFile): string =>
  wasShipped
    ? `${name}: already shipped`
    : `${name}: ${counted(lines, "line")}, ${bytesText(textBytes)}, stored as ${bytesText(storedBytes)}`;

const skippedText = (channel: string, { file, target }: SkippedFile): string =>
  target === undefined
    ? `${file}: skipped, because it is older than the channel. To ship it, run kit ship ${channel} with its path`
    : `${file}: skipped, because the link leads outside the directory, to ${target}. To follow it, pass --dereference`;

const copyText = ({ file, of, to }: ShipperEvents["copy"][0]): string =>
  `${file}: its first ${bytesText(to)} are shipped again. They are also in ${of}`;

export const shipCommand: CliCommand = {
  path: "ship",
  about: "ship files and directories to a log channel; run the command again to resume",
  args: [
    { name: "channel", about: "name of the channel" },
    { name: "path", about: "file, or directory of files", count: "many" },
  ],
  options: [
    { name: "limit", about: "maximum bytes in Redis, for a new channel", takes: "integer" },
    { name: "consumers", about: "consumers that must receive all lines, such as a,b", takes: "text" },
    { name: "dereference", about: "follow links that lead outside the directory" },
    { name: "pass-through", about: "ship gzip files unchanged" },
    { name: "follow", about: "ship growing logs, rotated by renaming, until Ctrl-C or SIGTERM" },
    { name: "quarantine", about: "skip damaged or changed files, and ship the others" },
    { name: "close", about: "close the channel at the end" },
    { name: "quiet", about: "hide progress" },
  ],
  run: async (call, channel, ...paths) => {
    const { redis, prefix, signal, output, text, integer, isSet } = call;
    const consumers = text("consumers")?.split(",");
    const onBadData = isSet("quarantine") ? "quarantine" : "error";
    const shipper = createShipper(redis, channel!, { prefix, limitBytes: integer("limit"), consumers, onBadData });
    const passThrough = isSet("pass-through");
    const dereference = isSet("dereference");
    const notify = progressNotifier(call, true);
    shipper.on("progress", ({ file, doneBytes, totalBytes }) => notify(file, doneBytes, totalBytes));
    shipper.on("damaged", ({ file, error }) => {
      void output.line({ event: "damaged", file, code: error.code }, `${file}: ${error.message}`);
    });
    shipper.on("skipped", (fact) => void output.line({ event: "skipped", ...fact }, skippedText(channel!, fact)));
    shipper.on("copy", (fact) => void output.line({ event: "copy", ...fact }, copyText(fact)));
    shipper.on("waiting", ({ file }) => output.progress?.(`${file} waits: the channel is at its limit`));
    try {
      if (isSet("follow")) await Promise.all(paths.map((path) => shipper.follow(path, { dereference, signal })));
      for (const path of paths) {
        const isDirectory = (await stat(path)).isDirectory();
        const shipped = isDirectory
          ? await shipper.addDirectory(path, { passThrough, dereference, signal })
          : [await shipper.add(path, { passThrough, signal })];
        output.progress?.("");
        for (const file of shipped) await output.line({ event: "shipped", ...file }, shippedText(file));
      }
      if (isSet("close")) await shipper.closeChannel();
      return undefined;
    } catch (error) {
      if (signal.aborted && error === signal.reason) return "resumable";
      throw error;
    } finally {
      output.progress?.("");
      await shipper.close();
    }
  },
};

/** Undefined if there is no channel with that name. */
const consumersOf = async ({ redis, prefix }: InspectCall, channel: string): Promise<string[] | undefined> => {
  const shipper = createShipper(redis, channel, { prefix, isolate: false });
  try {
    return (await shipper.status())?.consumers.map(({ name }) => name);
  } finally {
    await shipper.close();
  }
};

export const receiveCommand: CliCommand = {
  path: "receive",
  about: "write the lines of a log channel to stdout as a consumer; run the command again to resume",
  args: [
    { name: "channel", about: "name of the channel", listedIn: "channels" },
    {
      name: "consumer",
      about: "name of the consumer; each consumer receives all lines",
      namesOf: async (call, channel) => (await consumersOf(call, channel!)) ?? [],
    },
  ],
  options: [
    { name: "from", about: "where a new consumer starts: start, oldest or now", takes: "text" },
    { name: "quarantine", about: "quarantine damaged files, and continue with the next" },
    { name: "redo", about: "retry quarantined files" },
    {
      name: "concurrency",
      about: "number of files to read in parallel, one per live log (default: 1)",
      takes: "integer",
    },
    { name: "once", about: "exit when no complete file is left, even if the channel is open" },
    { name: "quiet", about: "hide progress" },
  ],
  run: async (call, channel, consumer) => {
    const { redis, prefix, signal, output, text, integer, isSet } = call;
    const from = text("from") as "start" | undefined;
    const count = runRules.concurrency.check("concurrency", integer("concurrency") ?? 1);
    // A receiver would make the channel of a mistyped name, and wait for ever.
    if (!(await consumersOf(call, channel!))) {
      const name = JSON.stringify(channel);
      await output.note(
        `The prefix ${prefix} has no channel ${name}. Create it with kit ship, or run kit list channels`,
      );
      return await output.report({ data: { channel, consumer }, isUnknown: true });
    }
    // Bytes are written as they arrive: no line is too long.
    const receiver = createReceiver(redis, channel!, { prefix, consumer: consumer!, from, onLongLine: "split" });
    const notify = progressNotifier(call, false);
    receiver.on("progress", ({ file, offset, totalBytes }) => notify(file, offset, totalBytes));
    const stop = new AbortController();
    // Written lines are committed before the end, so that the next run does not write them again.
    let writing = 0;
    const endIfIdle = (): void => {
      if (writing === 0) stop.abort(signal.reason);
    };
    const stopListening = onAbort(signal, endIfIdle);
    /** After a signal nothing more is written. A write in flight is committed first. */
    const endIfAborted = async (): Promise<void> => {
      if (signal.aborted) await inTime(new Promise(() => undefined), { signal: stop.signal });
    };
    const write = async (file: ReceivedFile): Promise<void> => {
      // A last line without a line feed gets one, since another file follows.
      let isLineOpen = false;
      let isWriting = false;
      const begin = (): void => {
        if (!isWriting) writing++;
        isWriting = true;
      };
      const end = (): void => {
        if (isWriting) writing--;
        isWriting = false;
        if (signal.aborted) endIfIdle();
      };
      try {
        for await (const { bytes } of file.batches()) {
          begin();
          await output.bytes(bytes);
          isLineOpen = bytes.at(-1) !== lineFeed;
          if (isLineOpen) continue;
          await file.commit();
          end();
          await endIfAborted();
        }
        begin();
        if (isLineOpen) await output.bytes(Buffer.of(lineFeed));
        await file.commit();
      } finally {
        end();
      }
      await endIfAborted();
    };
    try {
      signal.throwIfAborted();
      if (isSet("redo")) await receiver.redo();
      const files = receiver.files({ until: isSet("once") ? "empty" : "closed", signal: stop.signal });
      await inParallel(count, stop, async () => {
        for await (const file of shared(files))
          try {
            await write(file);
          } catch (error) {
            if (!isSet("quarantine") || !(error instanceof LogshipError) || !isAboutContent(error)) throw error;
            await file.quarantine(error);
          }
      });
      return undefined;
    } catch (error) {
      if (signal.aborted && error === signal.reason) return "resumable";
      throw error;
    } finally {
      stopListening();
      output.progress?.("");
      await receiver.close();
    }
  },
};
