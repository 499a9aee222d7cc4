// A thread with one idle object, on a server of each kind. The thread also does the work that a process does once for all its objects.
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";
import { now } from "@tooling/lab";
import { onSent } from "../sent.js";
import { idle } from "./operations.js";
import { type IdleTask, Scene } from "./scene.js";

const minuteMs = 60_000;
/** From the first command to the start of the measured minute. The commands sent together with the first one are over by then. */
const restMs = 500;
/** The maximum time until an idle object's first command. */
const firstMs = 10_500;

const { index, urls } = workerData as IdleTask;
const object = idle[index]!;
const watched = urls.map((url) => ({ scene: new Scene({ url }), instants: [] as number[] }));
const ofNone: number[] = [];
onSent((connection) => {
  const owner = watched.find(({ scene }) => scene.has(connection));
  (owner?.instants ?? ofNone).push(now());
});

for (const { scene } of watched) await object.open(scene);
// The other threads open their objects, and the parent starts all together.
parentPort!.postMessage("opened");
await once(parentPort!, "message");
// Opening an object starts work, which is over after this time.
await sleep(2_000);
const startedAt = now();
for (const { instants } of watched) instants.length = 0;
await sleep(firstMs + restMs + minuteMs);
if (ofNone.length > 0) throw new Error(`${object.name}: another connection sent ${String(ofNone.length)} commands`);

/** In the minute that begins after its first command. */
const perHour = ([first = startedAt, ...others]: readonly number[]): number => {
  const from = first <= startedAt + firstMs ? first + restMs : startedAt;
  return 60 * [first, ...others].filter((at) => at >= from && at < from + minuteMs).length;
};
const counted = watched.map(({ instants }) => perHour(instants));
for (const { scene } of watched) await scene[Symbol.asyncDispose]();
parentPort!.postMessage(counted);
