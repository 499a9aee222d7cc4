// The base of every worker program, which runs as a process of its own. It logs its observations synchronously, line by
// line, so that a kill loses none. It leaves when its input ends, or on SIGTERM.
import { openSync, writeSync } from "node:fs";
import { connect, KitError } from "@kit/core";
import { pause } from "@kit/core/toolkit";
import { clock, connectNodeRedis, seeded } from "@tooling/lab";

export const settings = JSON.parse(process.argv[2] ?? "{}");

const exportsOf = async ({ modules = [], lie }) => {
  const real = Object.assign({}, ...(await Promise.all(modules.map((module) => import(module)))));
  if (!lie) return real;
  const { lies } = await import(lie.file);
  return { ...real, ...lies[lie.name](real) };
};
/** The exports of the package under test, or of one with the fault of a control. */
export const subject = await exportsOf(settings);

const logFile = openSync(settings.logFile, "a");
export const log = (kind, facts) => writeSync(logFile, `${JSON.stringify({ kind, ...facts })}\n`);

const crashed = (isUnhandled) => (error) => {
  log("crash", { error: String(error?.stack ?? error), isUnhandled });
  process.exitCode = 1;
};
process.on("unhandledRejection", crashed(true));
process.on("uncaughtException", crashed(false));
process.on("warning", crashed(false));

// ── stalls: nothing can settle while the process does not run ───────────────────────────────────────────────────────

const tickMs = 10;
let tickedAt = clock();
let stalled = 0;
/** The offset of the wall clock in seconds. The nemesis changes it; it must not matter. */
let clockOff = 0;
const overdueMs = () => Math.max(0, clock() - tickedAt - 2 * tickMs);
setInterval(() => {
  const lost = overdueMs();
  const from = tickedAt;
  // Set before the record is written, since writing may stall as well.
  tickedAt = clock();
  stalled += lost;
  if (lost > tickMs) log("stall", { from, to: tickedAt });
  const off = Math.round((Date.now() - tickedAt) / 1_000);
  if (off !== clockOff) log("jumped", { bySeconds: off });
  clockOff = off;
}, tickMs).unref();

const stalledMs = () => stalled + overdueMs();

// ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const openCalls = new Map();
let calls = 0;

/** Starts to time one call. The returned function records its outcome. */
export const timed = (what, name, dueMs) => {
  const number = ++calls;
  // The order matters, since the process may be stopped in between.
  const stalledBefore = stalledMs();
  const startedAt = clock();
  openCalls.set(number, what);
  return (outcome, facts = {}) => {
    if (!openCalls.delete(number)) return;
    log("call", {
      what,
      name,
      startedAt,
      settledAt: clock(),
      dueMs,
      stalledMs: stalledMs() - stalledBefore,
      outcome,
      ...facts,
    });
  };
};

export const abortReason = new Error("the caller has no more patience");
export const outcomeOf = (error) => {
  if (error === abortReason) return "aborted";
  if (!KitError.is(error)) return "untyped";
  return error.code === "KIT_UNKNOWN_OUTCOME" ? "unknown" : "failed";
};

const connections = [];

/** A client of node-redis has no `reconnectOnError`: its owner leaves a server that was demoted. */
const codeOf = ({ code, retryable }) => {
  if (code === "KIT_READONLY" && settings.setting === "address")
    for (const client of connections) void client.leave?.();
  return { code, ...(code === "KIT_CLUSTER" && { retryable }) };
};
export const detail = (error) => (KitError.is(error) ? codeOf(error) : { error: String(error?.stack ?? error) });

/** The text of a background error event. */
export const noteBackground = (error) => log("background", { typed: KitError.is(error), ...codeOf(error) });

/** Resolves with the value, or with undefined after a typed error, which is a normal outcome under faults. */
export const attempt = async (what, name, dueMs, run, facts = () => ({}), about = {}) => {
  const settled = timed(what, name, dueMs);
  try {
    const value = await run();
    settled("ok", { ...about, ...facts(value) });
    return value;
  } catch (error) {
    settled(outcomeOf(error), { ...about, ...detail(error) });
    return undefined;
  }
};

// ── start and end ───────────────────────────────────────────────────────────────────────────────────────────────────

let isOver = false;
export const isLeaving = () => isOver;

const orders = new Set();
/** Whether the nemesis has given this order since the last call. */
export const wasOrdered = (order) => orders.delete(order);

/** Resolves when the worker has to leave. */
export const left = new Promise((resolve) => {
  process.stdin.setEncoding("utf8");
  process.stdin.on("end", resolve).on("data", (text) => {
    for (const order of text.trim().split("\n")) orders.add(order);
  });
  process.on("SIGTERM", resolve);
});
void left.then(() => (isOver = true));

const ioredis = (url, name) => connect({ url, connectionName: name, deadlineMs: 5_000 });
const nodeRedis = (url, name) => connectNodeRedis(url, { name, deadlineMs: 5_000 });

const connectedBy = async (how, url, suffix) => {
  for (;;)
    try {
      const client = await how(url, `${settings.id}${suffix}`);
      connections.push(client);
      return client;
    } catch (error) {
      // Another try would not help a client that core does not take.
      if (isOver || error instanceof TypeError) throw error;
    }
};

/** Connects, and retries while the server is down. The connection is closed when the worker leaves. */
export const connected = (url, suffix = "") => connectedBy(ioredis, url, suffix);

/** The same for a client on which the package runs: of the library that this run is about. */
export const subjectClient = (url, suffix = "") =>
  connectedBy(settings.client === "node-redis" ? nodeRedis : ioredis, url, suffix);

/** After the refusal of a write by a replica, looks for the master again: a client's own commands do not do that. */
export const seekMaster = (client, error) => {
  if (String(error?.message).startsWith("READONLY")) client.disconnect(true);
};

export const pick = (random, list) => list[Math.floor(random() * list.length)];
export const upTo = (random, most) => 1 + Math.floor(random() * most);

/** A loop of a routine, with pauses by chance. */
export const repeating =
  (routine, restMs = settings.restMs) =>
  async (random) => {
    while (!isLeaving()) {
      await routine(random);
      await pause(random() * restMs);
    }
  };

/** Repeats a call until it succeeds or the worker leaves. Resolves with whether it succeeded. */
export const insist = async (what, name, dueMs, call) => {
  for (;;) {
    const isDone = await attempt(what, name, dueMs, async () => {
      await call();
      return true;
    });
    if (isDone || isLeaving()) return isDone === true;
    await pause(20);
  }
};

/** Blocks the event loop for longer than a lease. */
export const block = (random, facts = {}) => {
  const from = clock();
  const until = from + settings.leaseMs * (1.2 + 0.6 * random());
  while (clock() < until);
  log("blocked", { ...facts, from, to: clock() });
};

/** A loop that blocks the event loop when the nemesis orders it. */
export const obey = async (random) => {
  while (!isLeaving()) {
    if (wasOrdered("block")) block(random);
    await pause(10);
  }
};

/** Closes what the worker used, and records how long that took. */
export const closing = async (dueMs, close) => {
  const closed = timed("close", "", dueMs);
  await close();
  closed("ok");
};

/**
 * Runs all loops until the worker has to leave, then `close`. Each loop has chance of its own. The last record is written
 * after everything is closed.
 */
export const run = async (loops, close) => {
  log("started", { pid: process.pid });
  const working = loops.map((loop, index) => loop(seeded(settings.seed * 31 + index)));
  await left;
  await Promise.all(working);
  await close();
  await Promise.all(connections.map((client) => client.close()));
  process.stdin.destroy();
  log("left", { open: [...openCalls.values()], stalledMs: stalledMs() });
};
