// A process that reads a log that is being rotated, in one of three ways, until it is killed, or until the writer has ended and all is read.
import { appendFileSync, existsSync, readdirSync, readFileSync, realpathSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { gunzipSync } from "node:zlib";
import { connect } from "@kit/core";

const { way, subject, url, directory, side, match, live, rotated } = JSON.parse(process.argv[2]);
const { createLogJob, createReceiver, createShipper } = await import(subject);
const note = (event, fact) => appendFileSync(join(side, "events"), `${JSON.stringify({ way, event, ...fact })}\n`);
const isWritten = () => existsSync(join(side, "written"));
const own = { prefix: "rotation", deadlineMs: 10_000 };
const leaseMs = 400;
const ended = new AbortController();
const redis = await connect(url);

/** Each line by its number; a line that is not whole, by its text. */
const count = (lines, results) => {
  for (const line of lines) {
    const [, number, padding] = /^app (\d+) (x+)$/.exec(line) ?? [];
    const isWhole = padding?.length === 40 + (Number(number) % 60);
    if (!line.startsWith("#")) results.increment("lines", isWhole ? number : line.slice(0, 200));
  }
};
/** The numbers of the first and the last line of a file as it is now, or of its first `to` bytes. */
const rangeOf = ({ file, to }) => {
  try {
    const bytes = readFileSync(join(directory, file));
    const text = (file.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString("latin1", 0, to);
    const numbers = [...text.matchAll(/^app (\d+) x+$/gm)].map(([, number]) => Number(number));
    return { first: numbers[0], last: numbers.at(-1) };
  } catch {
    return {}; // renamed since, or not complete
  }
};
const noteAll = (source, events) => {
  for (const event of events) source.on(event, (fact) => note(event, { ...rangeOf(fact), ...fact }));
};
const noteError = (error) => {
  note(`error ${error?.code ?? error}`, { file: error?.file, message: String(error?.message ?? error) });
};

const liveFile = () => {
  try {
    return realpathSync(join(directory, live));
  } catch {
    return undefined; // between two files
  }
};

const ways = {
  job: async () => {
    const job = createLogJob(redis, "job", {
      ...own,
      directory,
      match: new RegExp(match),
      leaseMs,
      flushLines: 50,
      lastLine: "leave",
    });
    noteAll(job, ["gap", "copy", "moved", "again", "skipped", "damaged", "padding"]);
    for (;;) {
      const isLast = isWritten();
      const isBegun = (statSync(join(directory, live), { throwIfNoEntry: false })?.size ?? 0) > 0;
      try {
        await job.run(count);
        if (isBegun) writeFileSync(join(side, "counted"), "");
        if (isLast) return;
      } catch (error) {
        noteError(error);
        await pause(50);
      }
    }
  },
  add: async () => {
    const shipper = createShipper(redis, "add", { ...own, leaseMs, consumers: ["c"], chunkBytes: 4_096, flushMs: 50 });
    noteAll(shipper, ["copy", "moved"]);
    const receiving = receive("add");
    for (;;) {
      const isLast = isWritten();
      const names = readdirSync(directory).filter((name) => new RegExp(match).test(name));
      const target = liveFile();
      let isQuiet = true;
      for (const name of names) {
        const path = join(directory, name);
        const ageMs = Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0);
        // The live file, which some loggers only link to.
        const isLive = path === target;
        // A file that is whole: the next one has been begun for a while, or the writer has ended.
        if (ageMs < 1_500) isQuiet = false;
        if (ageMs < 1_500 || (!isLast && (isLive || !new RegExp(rotated).test(name)))) continue;
        await shipper.add(path).catch((error) => {
          if (error?.code === "ENOENT") return;
          isQuiet = false;
          noteError(error);
        });
      }
      if (isLast && isQuiet) break;
      await pause(50);
    }
    await receiving.idle();
  },
  follow: async () => {
    const shipper = createShipper(redis, "follow", {
      ...own,
      leaseMs,
      consumers: ["c"],
      chunkBytes: 4_096,
      flushMs: 50,
    });
    noteAll(shipper, ["copy", "moved", "skipped", "damaged"]);
    shipper.on("error", noteError);
    const receiving = receive("follow");
    const options = { signal: ended.signal, quietMs: 500, rotated: new RegExp(rotated) };
    const following = shipper.follow(join(directory, live), options);
    following.catch(() => undefined);
    await Promise.race([following, receiving.idle()]);
  },
};

const receive = (channel) => {
  const receiver = createReceiver(redis, channel, { ...own, consumer: "c", flushLines: 50, flushMs: 50 });
  noteAll(receiver, ["damaged"]);
  let last = performance.now();
  receiver.on("progress", () => {
    last = performance.now();
    if (channel === "follow") writeFileSync(join(side, "followed"), "");
  });
  receiver.run(count, { signal: ended.signal }).catch((error) => {
    if (ended.signal.aborted) return;
    noteError(error);
    process.exit(3);
  });
  return {
    /** A logger can lose lines. A process that was killed looks at all files again before it makes progress. */
    idle: async () => {
      const isAll = async () => {
        if (!isWritten()) return false;
        const written = Number(readFileSync(join(side, "written"), "utf8"));
        return (await redis.hlen(`rotation:logship:{${channel}}:results:c:lines`)) >= written;
      };
      while (!isWritten() || performance.now() - last < ((await isAll()) ? 3_000 : 20_000)) await pause(100);
    },
  };
};

try {
  await ways[way]();
  process.exit(0);
} catch (error) {
  noteError(error);
  process.exit(3);
}
