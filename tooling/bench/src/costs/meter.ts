// The work of servers between two readings.
import type { RedisNode, RedisServer } from "@kit/testing";
import { sent } from "../sent.js";
import type { Cost } from "./costs.js";

interface Reading {
  readonly commands: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly cpuMicros: number;
}

const infoCommand = ["INFO", "everything"] as const;
/** RESP2: the request of a reading, and its reply around the text. */
const requestBytes = `*2\r\n$4\r\nINFO\r\n$10\r\neverything\r\n`.length;
const replyBytes = (text: string): number => `$${String(text.length)}\r\n\r\n`.length + Buffer.byteLength(text);

const numberOf = (text: string, name: string): number => {
  const value = Number(new RegExp(`^${name}:([\\d.]+)`, "m").exec(text)?.[1]);
  if (Number.isNaN(value)) throw new Error(`INFO has no ${name}`);
  return value;
};

/** Sent by a replica. */
const ofReplicas = /^cmdstat_(replconf|psync)\b/;

const read = async (node: RedisNode): Promise<{ readonly reading: Reading; readonly ownBytesOut: number }> => {
  const text = String(await node.call(...infoCommand));
  let commands = 0;
  for (const line of text.split("\r\n"))
    if (line.startsWith("cmdstat_") && !ofReplicas.test(line)) commands += Number(/calls=(\d+)/.exec(line)?.[1]);
  return {
    reading: {
      commands,
      bytesIn: numberOf(text, "total_net_input_bytes"),
      bytesOut: numberOf(text, "total_net_output_bytes"),
      cpuMicros: (numberOf(text, "used_cpu_user") + numberOf(text, "used_cpu_sys")) * 1e6,
    },
    ownBytesOut: replyBytes(text),
  };
};

/** The sum of what all masters did during `work`, and the commands that this process sent. */
export const meter = async (server: RedisServer, work: () => Promise<unknown>): Promise<Cost> => {
  const first = await Promise.all(server.nodes.map(read));
  const before = await Promise.all(server.nodes.map(read));
  const sentBefore = sent();
  await work();
  const commands = sent() - sentBefore;
  const after = await Promise.all(server.nodes.map(read));
  type All = typeof before;
  const grown = (from: All, to: All, of: (one: Reading) => number): number =>
    to.reduce((all, { reading }, node) => all + of(reading) - of(from[node]!.reading), 0);
  const sum = (of: (one: Reading) => number): number => grown(before, after, of);
  // A reading counts the request of its own, and the command and the reply of the one before it.
  const readings = before.reduce((all, { ownBytesOut }) => all + ownBytesOut, 0);
  return {
    commands,
    innerCommands: sum((one) => one.commands) - before.length - commands,
    bytesIn: sum((one) => one.bytesIn) - requestBytes * before.length,
    bytesOut: sum((one) => one.bytesOut) - readings,
    // A reading takes CPU, too: as much as the one before it took.
    cpuMicros: Math.max(0, sum(({ cpuMicros }) => cpuMicros) - grown(first, before, ({ cpuMicros }) => cpuMicros)),
  };
};

/** The costs of one of `count`. */
export const per = (count: number, total: Cost): Cost =>
  Object.fromEntries(Object.entries(total).map(([part, value]) => [part, value / count])) as unknown as Cost;
