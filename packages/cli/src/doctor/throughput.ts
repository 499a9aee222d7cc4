import { execFile } from "node:child_process";
import { connect as connectPlain } from "node:net";
import { connect as connectTls } from "node:tls";
import { promisify } from "node:util";
import type { Finding } from "@kit/core/toolkit";
import type { ServerNode } from "../node.js";
import { type Check, ok, roughly, warning } from "./check.js";

/**
 * Each way of calling is measured in this many short turns, and the best one counts. Longer turns would measure the machine.
 */
const turns = 4;
const turnMs = 120;
/**
 * One client without pipelining usually reaches 50 to 60 % of redis-benchmark. An application that reaches half of that
 * opens a connection per call; this client keeps its own, so then something else holds it back.
 */
const leastShare = 0.25;
const usualShare = 0.5;

export interface Rates {
  /** One client, one call after the other. */
  readonly single: number;
  /** A connection for each call. */
  readonly perCall: number;
  /** The reachable figure, and how it was measured. */
  readonly yardstick: number;
  readonly measuredBy: string;
}

/** Calls per second, one after the other. */
const rateOf = async (call: () => Promise<unknown>): Promise<number> => {
  const startedAt = performance.now();
  let calls = 0;
  let took: number;
  do {
    await call();
    calls++;
    took = performance.now() - startedAt;
  } while (took < turnMs);
  return (calls / took) * 1_000;
};

const connectionPerCall = async (node: ServerNode): Promise<unknown> => {
  const connection = node.another();
  try {
    await connection.connect();
    return await connection.call("PING");
  } finally {
    connection.disconnect();
  }
};

/** redis-benchmark accepts a password only on its command line, which every process can see. */
const isForBenchmark = ({ settings }: ServerNode): boolean =>
  settings.password == null && settings.tls === undefined && settings.path === undefined;

const byBenchmark = async (node: ServerNode, calls: number, signal: AbortSignal): Promise<number | undefined> => {
  const args = ["-h", node.host, "-p", String(node.port), "-c", "1", "-n", String(calls), "-t", "ping_mbulk", "--csv"];
  try {
    const { stdout } = await promisify(execFile)("redis-benchmark", args, { timeout: 3_000, signal });
    const rate = Number(/^"PING_MBULK","([\d.]+)"/m.exec(stdout)?.[1]);
    return rate > 0 ? rate : undefined;
  } catch {
    return undefined;
  }
};

const word = (text: string): string => `$${String(Buffer.byteLength(text))}\r\n${text}\r\n`;
const command = (...words: readonly string[]): string => `*${String(words.length)}\r\n${words.map(word).join("")}`;

/** A bare socket does the same as redis-benchmark with one client: a PING, its reply, the next. */
const byBareSocket = async ({ settings, host, port }: ServerNode): Promise<number> => {
  const { path, tls, username, password } = settings;
  const place = path === undefined ? { host, port } : { path };
  const socket = tls ? connectTls({ ...place, ...tls }) : connectPlain(place);
  socket.setNoDelay(true);
  // One listener for its whole life: a connection that is lost between two calls must not end the program.
  let settle: { resolve: () => void; reject: (error: Error) => void } | undefined;
  socket.on("data", () => settle?.resolve());
  socket.on("error", (error) => settle?.reject(error));
  socket.on("close", () => settle?.reject(new Error("the connection was closed")));
  socket.setTimeout(2_000, () => socket.destroy());
  const ask = (text: string): Promise<void> =>
    new Promise((resolve, reject) => {
      settle = { resolve, reject };
      socket.write(text);
    });
  try {
    if (password != null) await ask(command("AUTH", username ?? "default", password));
    const ping = command("PING");
    return await rateOf(() => ask(ping));
  } finally {
    socket.destroy();
  }
};

/** The meaning of the figures. */
export const judgeRates = ({ single, perCall, yardstick, measuredBy }: Rates): Finding => {
  const share = (rate: number): string => `${roughly(rate)}/s (${String(Math.round((rate / yardstick) * 100))} %)`;
  const figures = `${measuredBy} ${roughly(yardstick)}/s; one client without pipelining ${share(single)}; a connection per call ${share(perCall)}`;
  if (single >= yardstick * leastShare && single < yardstick * usualShare)
    return ok(`${figures}. Below the usual 50 to 60 %, as on a busy machine`);
  if (single >= yardstick * leastShare)
    return ok(
      `${figures}. Without pipelining, 50 to 60 % is normal. An application at 30 % or less opens a connection per call`,
    );
  return warning(
    `${figures}. This is less than half of the normal rate: the machine is too busy`,
    "Check what else uses this machine's CPU (quota, steal, a debugger), then run the check again.",
  );
};

export const throughput: Check = {
  id: "throughput",
  async look({ nodes: [node], ended }): Promise<readonly Finding[]> {
    const ping = (): Promise<unknown> => node.ping();
    // The first calls run code that is not compiled yet.
    let single = await rateOf(ping);
    let benchmark: number | undefined;
    let bare = 0;
    let perCall = 0;
    for (let turn = 0; turn < turns; turn++) {
      if (isForBenchmark(node) && (turn === 0 || benchmark !== undefined)) {
        const rate = await byBenchmark(node, Math.max(20, Math.round((single * turnMs) / 500)), ended);
        benchmark = rate === undefined ? benchmark : Math.max(rate, benchmark ?? 0);
      }
      if (benchmark === undefined) bare = Math.max(bare, await byBareSocket(node));
      single = Math.max(single, await rateOf(ping));
      perCall = Math.max(perCall, await rateOf(() => connectionPerCall(node)));
    }
    const measuredBy = benchmark === undefined ? "a bare socket" : "redis-benchmark";
    return [judgeRates({ single, perCall, yardstick: benchmark ?? bare, measuredBy })];
  },
};
