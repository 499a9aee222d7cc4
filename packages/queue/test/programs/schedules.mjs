// A process that runs schedules, and is killed around one of its calls of scripts:
//   schedules.mjs <port> <prefix> <queue> <which call> <"before" it is sent | "after" its reply>
import { createSchedules } from "@kit/queue/schedules";
import { clientOf } from "@tooling/vitest/peer";
import * as ioredis from "ioredis";

const [port, prefix, name, nth, when] = process.argv.slice(2);
const redis = clientOf(ioredis, "single", port, {});
const die = () => process.kill(process.pid, "SIGKILL");
const { sendCommand } = Object.getPrototypeOf(redis);
let calls = 0;
redis.sendCommand = function (command, stream) {
  const isLast = command.name === "evalsha" && ++calls === Number(nth);
  if (isLast && when === "before") die();
  const sent = sendCommand.call(this, command, stream);
  if (isLast) command.promise.then(die, die);
  return sent;
};
createSchedules(redis, name, { prefix, lookEveryMs: 100 }).run();
