// A process that adopts a BullMQ queue again and again; or once, and is killed after the reply of one of its calls of scripts:
//   adopt.mjs <single | cluster> <ports> <prefix> <queue> <BullMQ's prefix> [which call]
import { adoptBullQueue } from "@kit/queue/adopt";
import { clientOf, obey } from "@tooling/vitest/peer";
import * as ioredis from "ioredis";

const [mode, ports, prefix, queue, bullPrefix, nth] = process.argv.slice(2);
const redis = clientOf(ioredis, mode, ports, {});
const die = () => process.kill(process.pid, "SIGKILL");
const adopt = () => adoptBullQueue(redis, { from: queue, bullPrefix }, { queue, prefix }, { run: true });
if (nth === undefined) {
  obey({
    ready: async () => {
      await redis.ping();
      const again = () => adopt().then(again, die);
      void again();
    },
  });
} else {
  const { sendCommand } = Object.getPrototypeOf(redis);
  let calls = 0;
  redis.sendCommand = function (command, stream) {
    const isLast = command.name === "evalsha" && ++calls === Number(nth);
    const sent = sendCommand.call(this, command, stream);
    if (isLast) command.promise.then(die, die);
    return sent;
  };
  await adopt();
  process.exit(0);
}
