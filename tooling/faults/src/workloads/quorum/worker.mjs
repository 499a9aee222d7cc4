// A process that takes names of a quorum lock, one after the other, and writes down at which instants it certainly holds them.
import { pause } from "@kit/core/toolkit";
import { clock } from "@tooling/lab";
import {
  attempt,
  closing,
  isLeaving,
  log,
  noteBackground,
  obey,
  pick,
  repeating,
  run,
  settings,
  subject,
  subjectClient,
  upTo,
} from "../../lab/contender.mjs";

const { id, urls, names, prefix, leaseMs, deadlineMs, nodeTimeoutMs, restartGuardMs } = settings;

const clients = await Promise.all(urls.map((url, at) => subjectClient(url, `-${at}`)));
const options = { prefix, leaseMs, deadlineMs, nodeTimeoutMs, restartGuardMs, holder: id };
const lock = subject.createQuorumLock(clients, options);
lock.on("error", noteBackground);

const glanceMs = 5;
let grants = 0;

const hold = async (lease, holdMs) => {
  const { name } = lease;
  const grant = `${id}-${++grants}`;
  const until = clock() + holdMs;
  for (;;) {
    // Read first, so that it is held at this instant if it is held after it.
    const at = clock();
    if (!lease.isHeld) return;
    log("held", { name, grant, at });
    if (at >= until || isLeaving()) return;
    await pause(glanceMs);
  }
};

const contend = repeating(async (random) => {
  const waitMs = upTo(random, 2 * leaseMs);
  // Now and then it is renewed several times.
  const holdMs = random() < 0.08 ? leaseMs * (0.5 + 1.5 * random()) : 5 * random();
  const dueMs = waitMs + holdMs + glanceMs + nodeTimeoutMs;
  const name = pick(random, names);
  await attempt("use", name, dueMs, () => lock.using(name, (lease) => hold(lease, holdMs), { waitMs }));
});

const closeMs = 1_000;
await run([contend, obey], () => closing(closeMs + deadlineMs, () => lock.close({ timeoutMs: closeMs })));
