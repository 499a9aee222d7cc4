import { createServer } from "node:http";
import { connect } from "@kit/core";
import { createQueue } from "@kit/queue";
import { inspectJob, readLog } from "@kit/queue/manage";
import { readCheckpoint, reportProgress, saveCheckpoint, writeLog } from "@kit/queue/progress";

type Jobs = { encode: (video: { scenes: number }) => void };
const redis = await connect();
const videos = createQueue<Jobs>(redis, "videos", { maxAttempts: 3, backoff: { firstMs: 20, jitter: 0 } });
let isDiskFull = true;

// In the worker's process.
const worker = videos.work({
  encode: async (job) => {
    const { scenes } = job.data;
    const { done } = (await readCheckpoint<{ done: number }>(job)) ?? { done: 0 };
    for (let scene = done + 1; scene <= scenes; scene++) {
      if (scene === 3 && isDiskFull) throw new Error("The disk is full");
      void writeLog(job, `scene ${String(scene)} is encoded`);
      void reportProgress(job, { percent: Math.round((100 * scene) / scenes) });
      await saveCheckpoint(job, { done: scene }); // the next attempt begins behind this scene
    }
  },
});

// In the web server's: GET /videos/ID?after=LINE
const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://server");
  const [address, id] = [{ queue: "videos" }, pathname.slice("/videos/".length)];
  const after = Number(searchParams.get("after") ?? 0);
  Promise.all([inspectJob(redis, address, id), readLog(redis, address, id, { after })])
    .then(([{ state, progress, error }, { lines }]) => {
      response.end(JSON.stringify({ state, progress, error: error?.message, lines: lines.map(({ text }) => text) }));
    })
    .catch(() => response.writeHead(500).end());
}).listen(0, "127.0.0.1");
await new Promise((resolve) => server.once("listening", resolve));
const { port } = server.address() as { port: number };

// In the browser.
const look = async (id: string, after: number): Promise<string> =>
  await (await fetch(`http://127.0.0.1:${String(port)}/videos/${id}?after=${String(after)}`)).text();

const failed = new Promise((resolve) => worker.once("dead", resolve));
const id = await videos.add("encode", { scenes: 4 });
await failed;
console.log(await look(id, 0));
// prints: {"state":"dead","progress":{"percent":50},"error":"The disk is full","lines":["scene 1 is encoded","scene 2 is encoded"]}

isDiskFull = false;
const completed = new Promise((resolve) => worker.once("completed", resolve));
await videos.redrive([id]);
await completed;
console.log(await look(id, 2));
// prints: {"state":"none","progress":{"percent":100},"lines":["scene 3 is encoded","scene 4 is encoded"]}

server.close();
await videos.close();
await redis.close();
