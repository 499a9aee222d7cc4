// A process that ships, receives or processes, and kills itself with SIGKILL when the reply to its n-th command is there and before it
// has acted on it:
//   mortal.mjs <single|cluster> <ports> <what> <task as JSON> <user name and password as JSON>
// It counts lines by their first word in the result "words", and prints "done" at its end.
import * as logship from "@kit/logship";
import { clientOf } from "@tooling/vitest/peer";

const ioredis = await import(process.env.KIT_IOREDIS === "5" ? "ioredis5" : "ioredis");
const [mode, ports, what, task, login] = process.argv.slice(2);
const { name, options, killAt, files = [] } = JSON.parse(task);
const redis = clientOf(ioredis, mode, ports, JSON.parse(login));
let sent = 0;
const die = () => {
  process.kill(process.pid, "SIGKILL");
  // The signal is handled by the kernel; nothing of this process runs on.
  for (;;);
};
const mortal = (method) => {
  const original = redis[method].bind(redis);
  redis[method] = async (...args) => {
    const isLast = ++sent === killAt;
    try {
      return await original(...args);
    } finally {
      if (isLast) die();
    }
  };
};
mortal("call");
mortal("mgetBuffer");

const count = (lines, results) => {
  for (const line of lines) results.increment("words", line.split(" ", 1)[0]);
};
const own = { ...options, isolate: false };
const run = {
  job: async () => {
    const job = logship.createLogJob(redis, name, own);
    await job.run(count);
    await job.close();
  },
  ship: async () => {
    const shipper = logship.createShipper(redis, name, own);
    for (const file of files) await shipper.add(file);
    await shipper.close();
  },
  receive: async () => {
    const receiver = logship.createReceiver(redis, name, own);
    await receiver.run(count, { until: "empty" });
    await receiver.close();
  },
};
await run[what]();
process.send?.("done");
redis.disconnect();
process.disconnect?.();
