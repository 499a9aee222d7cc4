// A process that uses up the limits of a few keys, counts calls exactly, and waits for its turn. Each call that is counted exactly
// is logged before it is made.
import {
  attempt,
  log,
  noteBackground,
  obey,
  pick,
  repeating,
  run,
  settings,
  subject,
  subjectClient,
} from "../../lab/contender.mjs";

const { prefix, deadlineMs, limits, exactCount, waitLimit, waitMs } = settings;
const { createLimiter } = subject;

const client = await subjectClient(settings.url);
const make = (name, limit) => {
  const limiter = createLimiter(client, name, { prefix, deadlineMs, limits: { limit } });
  limiter.on("error", noteBackground);
  return limiter;
};
const limiters = limits.map(({ limiter, limit }) => [limiter, make(limiter, limit)]);
const ledger = make("ledger", exactCount);
const queue = make("queue", waitLimit);
const keys = ["a", "b"];

const consume = repeating(async (random) => {
  const [name, limiter] = pick(random, limiters);
  const key = pick(random, keys);
  await attempt(
    "consume",
    name,
    deadlineMs,
    () => limiter.consume(key),
    ({ allowed }) => ({ allowed }),
    { key },
  );
}, 4);

const count = repeating(async () => {
  log("intends", {});
  await attempt("count", "ledger", deadlineMs, () => ledger.consume("all"));
});

// A wait that would be too long is refused with an error, as it should be under this load.
const wait = repeating(async () => {
  await attempt("wait", "queue", waitMs + deadlineMs, () => queue.wait("all", { waitMs }));
});

await run([...Array.from({ length: 12 }, () => consume), count, count, wait, wait, obey], () =>
  Promise.all([...limiters.map(([, limiter]) => limiter), ledger, queue].map((limiter) => limiter.close())),
);
