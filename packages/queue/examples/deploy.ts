import { connect } from "@kit/core";
import { createQueue, type Job } from "@kit/queue";

type Film = { frames: number };
const redis = await connect();
const films = createQueue<{ film: (data: Film) => void }>(redis, "films");
const saved = new Map<string, number>(); // how far each job is: in your database

let stop = (): void => undefined;

const film = ({ id, data, closing, signal }: Job<"film", Film>): void => {
  for (let frame = (saved.get(id) ?? 0) + 1; frame <= data.frames; frame++) {
    signal.throwIfAborted(); // the lease is lost: another worker may run the job
    closing.throwIfAborted(); // a deploy: the job goes back to the front, and no attempt is counted
    console.log(`frame ${String(frame)}`);
    saved.set(id, frame);
    if (frame === 2) stop(); // the deploy of this example
  }
};

const worker = films.work({ film });
const stopped = new Promise<void>((resolve) => {
  // Together with `abortGraceMs` (5 s) and `deadlineMs` (2 s) less than your platform waits before SIGKILL.
  stop = () => resolve(worker.close({ timeoutMs: 20_000 }));
});
process.once("SIGTERM", stop);
await films.add("film", { frames: 3 });
await stopped;
// prints: frame 1
// prints: frame 2

const next = films.work({ film });
next.on("completed", ({ job }) => console.log(`done at attempt ${String(job.attempt)}`));
await new Promise((resolve) => next.once("completed", resolve));
// prints: frame 3
// prints: done at attempt 1
await films.close();
await redis.close();
