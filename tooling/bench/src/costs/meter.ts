// The work of servers between two readings.
import type { RedisServer } from "@kit/testing";
import { sent } from "../sent.js";
import type { Cost } from "./costs.js";

/** RESP2: the request of a reading. */
const requestBytes = "*2\r\n$4\r\nINFO\r\n$10\r\neverything\r\n".length;

/** Sent by a replica. */
const ofReplicas = /^cmdstat_(replconf|psync)\b/;

/** The sums over all masters, and the bytes of this reading's replies. */
const read = async ({ nodes }: RedisServer) => {
  const sum = { commands: 0, bytesIn: 0, bytesOut: 0, cpuMicros: 0, ownBytesOut: 0 };
  for (const text of (await Promise.all(nodes.map((node) => node.call("INFO", "everything")))).map(String)) {
    const numberOf = (name: string): number => {
      const value = Number(new RegExp(`^${name}:([\\d.]+)`, "m").exec(text)?.[1]);
      if (Number.isNaN(value)) throw new Error(`INFO has no ${name}`);
      return value;
    };
    for (const line of text.split("\r\n"))
      if (line.startsWith("cmdstat_") && !ofReplicas.test(line)) sum.commands += Number(/calls=(\d+)/.exec(line)?.[1]);
    sum.bytesIn += numberOf("total_net_input_bytes");
    sum.bytesOut += numberOf("total_net_output_bytes");
    sum.cpuMicros += (numberOf("used_cpu_user") + numberOf("used_cpu_sys")) * 1e6;
    sum.ownBytesOut += `$${String(text.length)}\r\n\r\n`.length + Buffer.byteLength(text);
  }
  return sum;
};

/** The sum of what all masters did during `work`, and the commands that this process sent. */
export const meter = async (server: RedisServer, work: () => Promise<unknown>): Promise<Cost> => {
  const masters = server.nodes.length;
  const first = await read(server);
  const before = await read(server);
  const sentBefore = sent();
  await work();
  const commands = sent() - sentBefore;
  const after = await read(server);
  return {
    commands,
    // A reading counts the request of its own, and the command and the reply of the one before it.
    innerCommands: after.commands - before.commands - masters - commands,
    bytesIn: after.bytesIn - before.bytesIn - requestBytes * masters,
    bytesOut: after.bytesOut - before.bytesOut - before.ownBytesOut,
    // A reading takes CPU, too: as much as the one before it took.
    cpuMicros: Math.max(0, after.cpuMicros - 2 * before.cpuMicros + first.cpuMicros),
  };
};
