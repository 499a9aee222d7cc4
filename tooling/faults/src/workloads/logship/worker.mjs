// A process that ships files of its share, receives as one of two consumers, and processes a job's directory. It receives
// and processes in slices, between which other processes take over.
import { existsSync, readdirSync, renameSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pause } from "@kit/core/toolkit";
import { Redis } from "ioredis";
import { clock } from "@tooling/lab";
import {
  abortReason,
  attempt,
  closing,
  connected,
  isLeaving,
  left,
  log,
  noteBackground,
  pick,
  repeating,
  run,
  settings,
  subject,
  wasOrdered,
} from "../../lab/contender.mjs";
import { bytesOf, collector, containedOf, isPassedThrough } from "./sources.mjs";

const {
  url,
  number: share,
  filesSeed: seed,
  deadlineMs,
  leaseMs,
  limitBytes,
  shipFolder,
  jobFolder,
  points,
} = settings;
const { createLogJob, createReceiver, createShipper } = subject;

// ── points at which the process dies ────────────────────────────────────────────────────────────────────────────────

const keyParts = (args) =>
  args
    .slice(2, 2 + Number(args[1]))
    .map((key) => String(key).replace(/^.*\}:/, ""))
    .join();
/** The step of shipping, receiving or processing that a command belongs to. Scripts are recognised by their keys. */
const pointOf = ({ name, args }) => {
  const plain = name.toLowerCase();
  if (plain === "set" || plain === "mget") return plain;
  if (name !== "evalsha" && name !== "eval") return undefined;
  const keys = keyParts(args);
  const found = points.find(({ keys: first }) => first !== undefined && `${keys},`.startsWith(`${first},`));
  if (found?.point !== "progress") return found?.point;
  // Both scripts have the same keys. A commit passes its results as JSON.
  return args.at(-1).startsWith?.("[") ? "progress" : "claim";
};
const die = () => {
  process.kill(process.pid, "SIGKILL");
  for (;;);
};
let fatal;
const sendCommand = Redis.prototype.sendCommand;
Redis.prototype.sendCommand = function (command, ...rest) {
  const isFatal = fatal !== undefined && pointOf(command) === fatal.point;
  if (isFatal && fatal.isBefore) die();
  const sent = sendCommand.call(this, command, ...rest);
  if (isFatal) command.promise.then(die, () => undefined);
  return sent;
};

// ── work ────────────────────────────────────────────────────────────────────────────────────────────────────────────

const client = await connected(url);
const own = { prefix: "kit", deadlineMs };
const shipper = createShipper(client, "logs", {
  ...own,
  limitBytes,
  chunkBytes: 2_048,
  codec: share % 2 ? "gzip" : "none",
  maxInFlight: 4,
  flushMs: 50,
  leaseMs,
  consumers: ["a", "b"],
});
const receivers = ["a", "b"].map((consumer) => {
  const options = { ...own, consumer, flushLines: 60, flushMs: 50, prefetchBytes: 16_384 };
  const receiver = createReceiver(client, "logs", options);
  return { receiver, collect: collecting(receiver, consumer) };
});
const job = createLogJob(client, "sums", {
  ...own,
  directory: jobFolder,
  match: /\.(log|gz)$/,
  leaseMs,
  flushLines: 60,
});
const collectForJob = collecting(job, "job");
const access = (what) => () => log("access", { what, at: clock() });
for (const [object, what] of [
  [shipper, "ship"],
  ...receivers.map(({ receiver }) => [receiver, "receive"]),
  [job, "job"],
]) {
  object.on("progress", access(what));
  object.on("error", noteBackground);
}

const endless = 1e9;
/** The number of files of this worker's share. */
const filesOf = (folder) =>
  readdirSync(folder).filter((name) => name.startsWith(`${share}-`) && /\.(log|gz)$/.test(name)).length;
const write = (folder, name) => {
  const path = join(folder, name);
  if (!existsSync(path)) {
    writeFileSync(`${path}.part`, bytesOf(name, seed));
    renameSync(`${path}.part`, path);
  }
  return path;
};
const nameOf = (number) => `${share}-${number}.log${number % 3 ? "" : ".gz"}`;
const stop = new AbortController();
void left.then(() => stop.abort(abortReason));

/** Ships one file until it is in the channel. An earlier shipper of the file is fenced off. */
const shipOne = async (name, isMine) => {
  const path = write(shipFolder, name);
  const options = { signal: stop.signal, id: name };
  const isStream = /[159]\.log$/.test(name);
  const send = () =>
    isStream
      ? shipper.send(name, Readable.from([bytesOf(name, seed)]), options)
      : shipper.add(path, { ...options, passThrough: isPassedThrough(name) });
  while (!isLeaving()) {
    const shipped = await attempt("ship", name, endless, send);
    if (shipped) {
      writeFileSync(`${path}.done`, "");
      return log("shipped", { name, sha256: shipped.sha256 });
    }
    if (!isMine) return;
    await pause(20);
  }
};

/**
 * Files that other processes had open, or had just ended, when this process began. Open files hold up the files behind
 * them, and a failover may open a file again. Their shippers may be gone, and one try may fail.
 */
const taken = [];
const recentMs = 10_000;
const isEndedLongAgo = (name) => {
  const done = statSync(join(shipFolder, `${name}.done`), { throwIfNoEntry: false });
  return done !== undefined && done.mtimeMs < Date.now() - recentMs;
};

const ship = async () => {
  taken.push(...readdirSync(shipFolder).filter((name) => /\.(log|gz)$/.test(name) && !isEndedLongAgo(name)));
  await Promise.all(taken.map((name) => shipOne(name, false)));
  for (let number = 1; !isLeaving(); number++) await shipOne(nameOf(number), true);
};

/** Reads the stored results. Retries until the server replies or the worker leaves. */
const storedOf = (object, consumer) => async () => {
  for (;;)
    try {
      return await object.results(`chain-${consumer}`);
    } catch (error) {
      if (isLeaving()) throw error;
      await pause(50);
    }
};
const odd = (what) => log("odd", { what });

/**
 * Returns a factory of collectors, one for each run.
 *
 * If stored results do not belong to the position at which lines begin, another process has gone on since or a failover
 * lost commits. Then no commit may include these lines. A new reading of a file begins when lines do not follow the last
 * ones, or come with another signal.
 */
function collecting(object, consumer) {
  let readings = new Map();
  object.on("progress", ({ file, offset }) => {
    const { doubt } = readings.get(file) ?? {};
    if (doubt && doubt.offset < offset) odd(doubt.what);
  });
  return () => {
    readings = new Map();
    const collect = collector(consumer, storedOf(object, consumer), (what, { file, offset }) => {
      readings.get(file).doubt ??= { what, offset };
    });
    return async (lines, results, at) => {
      const { file, offset, signal } = at;
      const known = readings.get(file);
      const reading = known?.next === offset && known.signal === signal ? known : { signal };
      readings.set(file, reading);
      reading.next = offset + lines.reduce((bytes, line) => bytes + Buffer.byteLength(line) + 1, 0);
      await collect(lines, results, at);
    };
  };
}

const receiveByHand = async (receiver, collect, signal, random) => {
  for await (const file of receiver.files({ signal })) {
    let { offset } = file;
    for await (const { lines, endOffset } of file.batches()) {
      await collect(lines, file.results, { file: file.name, offset });
      offset = endOffset;
      if (random() < 0.5) await file.commit();
    }
    await file.commit();
  }
};

/** Runs in slices. After each, this process or another one of the same consumer resumes. */
const inSlices = async (what, random, run) => {
  while (!isLeaving()) {
    const slice = new AbortController();
    const end = () => slice.abort(abortReason);
    const timer = setTimeout(end, 200 + random() * 1_300);
    stop.signal.addEventListener("abort", end);
    await attempt(what, "", endless, () => run(slice.signal));
    clearTimeout(timer);
    stop.signal.removeEventListener("abort", end);
    await pause(20 + random() * 150);
  }
};

// A failover may lose the end of a file, which then holds up the files behind it. Shipping it again ends it. All files are
// shipped at once, since any of them may hold up the others.
const shipAgain = async () => {
  while (!isLeaving()) {
    await pause(1_000);
    const last = filesOf(shipFolder);
    const names = Array.from({ length: Math.min(last, 40) }, (_, index) => nameOf(last - index));
    const shipped = names.filter((name) => existsSync(join(shipFolder, `${name}.done`)));
    await Promise.all([...new Set([...taken, ...shipped])].map((name) => shipOne(name, false)));
  }
};

/** Blocks while the worker has a file, so that another worker takes it. Without a file it blocks after a while. */
let blockAt = Infinity;
let blockMs = 0;
const block = () => {
  blockAt = Infinity;
  const from = clock();
  while (clock() < from + blockMs);
  log("blocked", { from, to: clock() });
};

/** Puts some of the job's files into other containers: compressed or not, in another inode, and with all lines. */
const rotate = (random) => {
  const names = readdirSync(jobFolder).filter((name) => name.startsWith(`${share}-`) && /\.(log|gz)$/.test(name));
  for (const name of names) if (random() < 0.3) contain(name, false, random() < 0.5);
};
const contain = (name, isHalf, isGzip) => {
  const path = join(jobFolder, name);
  writeFileSync(`${path}.part`, containedOf(name, seed, isHalf, isGzip));
  renameSync(`${path}.part`, path);
};

const work = async (random) => {
  await inSlices("job", random, async (signal) => {
    contain(nameOf(filesOf(jobFolder) + 1), random() < 0.5, random() < 0.3);
    rotate(random);
    const collect = collectForJob();
    const handler = (lines, results, context) => {
      if (blockAt < Infinity) block();
      return collect(lines, results, context);
    };
    await job.run(handler, { signal, concurrency: 2 });
  });
};

const ask = repeating(() => attempt("status", "logs", deadlineMs, () => shipper.status()), 60);

const obey = async (random) => {
  while (!isLeaving()) {
    for (const { point } of points) if (wasOrdered(`die at ${point}`)) fatal = { point, isBefore: random() < 0.3 };
    if (wasOrdered("block")) [blockAt, blockMs] = [clock() + 250, leaseMs * (1.3 + 0.9 * random())];
    if (clock() > blockAt) block();
    await pause(10);
  }
};

const receive = (random) =>
  inSlices("receive", random, async (signal) => {
    const { receiver, collect } = pick(random, receivers);
    if (random() < 0.4) await receiveByHand(receiver, collect(), signal, random);
    else await receiver.run(collect(), { signal, concurrency: 2 });
  });

await run([ship, shipAgain, receive, work, ask, obey], () =>
  closing(10_000, () =>
    Promise.all([shipper, job, ...receivers.map(({ receiver }) => receiver)].map((object) => object.close())),
  ),
);
