import {
  checkWorker,
  judged,
  type Judge as AnyJudge,
  stalledByAll,
  stalledIn,
  type Verdict as AnyVerdict,
} from "../../common-invariants.js";
import { patience } from "../../patience.js";
import type { Span } from "../../records.js";
import { checkResumption, type Progress, type Work, workIn } from "../../work.js";
import { checkBlocks } from "./blocks.js";
import { checkCancels, mayBeCancelled } from "./cancels.js";
import { checkDue } from "./due-times.js";
import { checkEdits } from "./edits.js";
import { checkExpiry, mayHaveExpired } from "./expiry.js";
import { checkFlows } from "./flows.js";
import { checkGroups } from "./groups.js";
import { type AddCall, type Death, isHarmless, type LogRecord, maxAttempts, type RunHistory } from "./history.js";
import { checkLimits } from "./limits.js";
import { checkListed } from "./listed.js";
import { checkOutages } from "./outages.js";
import { checkPauses } from "./pauses.js";
import { checkSchedules } from "./schedules.js";
import { silencesIn } from "./silences.js";
import { checkSnoozes } from "./snoozes.js";
import { type Begun, mayBeLost, saw, storiesOf, type Story } from "./stories.js";
import { checkUnique } from "./unique.js";

/**
 * The invariants that the checker judges a run by.
 *
 * - `kept` a job whose add was acknowledged runs to its end or becomes a dead letter, and nothing is left over; a durable
 *   add also survives a failover or a power cut
 * - `repeats` a job runs again only after a failed attempt, a snooze, a charged crash, a lost lease, or the close of its
 *   worker
 * - `ended` a job never begins again once its worker has the server's confirmation of its end
 * - `fenced` the end of a job is refused after its lease was revoked and another worker has begun it
 * - `aborted` a handler's signal has aborted when another worker begins its job
 * - `due` no delayed job begins before its time, nor one that was rescheduled before its new time
 * - `charged` a crash is charged only if a worker was killed or stalled, or the server was unreachable
 * - `outage` a stop of the server that lasts longer than half a lease and a second charges no crash to a job whose worker
 *   lives
 * - `listed` no worker is listed whose last sign of life is 30 s old
 * - `called` a call resolves with the result of its own finished job; it rejects if the job failed for good
 * - `dead` a dead letter has failed `maxAttempts` times, or was charged its last crash
 * - `cancelled` a job that was removed or cancelled is not taken again, and no end of it counts; its handler's signal
 *   aborts within a lease
 * - `snoozed` a snooze uses no attempt, and the job does not begin before its time
 * - `paused` the server takes no job between a confirmed pause and the resume
 * - `namePaused` the same of the jobs of a paused name
 * - `concurrency` no more jobs are active than the limit of the queue allows
 * - `nameConcurrency` the same of the jobs of a name, by its own limit
 * - `rate` no more jobs begin in any span than the rate of the queue allows
 * - `unique` of the jobs of one key no two are active, nor does one wait beside another; the last data runs, or the first
 * - `expired` no job begins that nobody took in time, and none expires early
 * - `edited` a confirmed edit holds for every later take; a refused one changes nothing
 * - `flows` no job of a flow begins before each of its children has ended
 * - `settled` it begins within a lease and a second after that
 * - `groupConcurrency` no two jobs of a group are active
 * - `groupTurns` a group does not stand still while jobs that were added later begin, though one of its jobs waits
 * - `scheduled` each run of a schedule has its job, once and not before its instant
 * - `renewed` no job of a worker with a heartbeat thread begins again while its loop is blocked, for at most `maxBlockedMs`
 * - `lease` the jobs of a killed worker begin again within their lease plus 10 %
 * - `U2` the copies of a step get jobs of one take
 * - `U1`, `U3`, `U4`, `U5` as for every package: calls settle in time, work continues, nothing is left, errors are
 *   typed
 */
export const invariants = [
  "kept",
  "repeats",
  "ended",
  "fenced",
  "aborted",
  "due",
  "charged",
  "outage",
  "listed",
  "called",
  "dead",
  "cancelled",
  "snoozed",
  "paused",
  "namePaused",
  "concurrency",
  "nameConcurrency",
  "rate",
  "unique",
  "expired",
  "edited",
  "flows",
  "settled",
  "groupConcurrency",
  "groupTurns",
  "scheduled",
  "renewed",
  "lease",
  "U1",
  "U2",
  "U3",
  "U4",
  "U5",
] as const;
export type Invariant = (typeof invariants)[number];
type Judge = AnyJudge<Invariant>;

/** Checks a run against the invariants. */
export const verdictOn = (run: RunHistory): AnyVerdict<Invariant> =>
  judged(invariants, (judge) => {
    for (const worker of run.workers) if (worker.id !== "lab") checkWorker(worker, judge);
    checkResumption(run, workOf(run), judge);
    checkPauses(run, judge);
    const stories = storiesOf(run);
    const byJob = new Map(stories.map((story) => [story.job, story]));
    const silences = silencesIn(run);
    checkLimits(run, stories, judge);
    checkUnique(run, stories, judge);
    checkBlocks(run, stories, judge);
    checkSchedules(run, stories, judge);
    checkFlows(run, stories, judge);
    checkGroups(run, stories, judge);
    checkOutages(run, stories, judge);
    checkListed(run, judge);
    for (const story of stories) {
      checkKept(run, story, judge);
      checkRuns(run, story, judge);
      checkCrashes(run, story, silences, judge);
      checkCancels(run, story, judge);
      checkDue(run, story, judge);
      checkSnoozes(run, story, judge);
      checkExpiry(run, story, judge);
      checkEdits(run, story, judge);
      for (const add of story.adds) if (add.what === "call") checkCall(run, story, add, judge);
    }
    if (run.losses.length === 0) checkCopies(run, judge);
    if (run.losses.length === 0) for (const what of run.leftovers) judge("kept", what);
    for (const [name, letters] of run.letters)
      for (const letter of letters) {
        const { key, attempts, crashes } = letter;
        const story = byJob.get(`${name} ${key}`);
        const spec = run.specs.find((one) => one.name === name);
        // A worker was killed before it logged the add of this job.
        if (!story || story.adds.length === 0) continue;
        const fails = failsOf(story, key);
        const isRight = attempts === maxAttempts ? fails >= maxAttempts : crashes >= (spec?.work.maxCrashes ?? 0);
        if (run.losses.length === 0) judge("dead", !isRight && `${name}: ${JSON.stringify(letter)} should not be dead`);
      }
    const held = run.specs.filter(({ isPaused, isLimited }) => isPaused || isLimited).map(({ name }) => name);
    for (const death of run.deaths)
      if (!held.includes(death.name)) checkDeath(run, death, byJob.get(`${death.name} ${death.key}`), judge);
  });

/** A copy may get fewer jobs, since leases have ended meanwhile, and no others. */
const checkCopies = ({ copiedTakes }: RunHistory, judge: Judge): void => {
  const largest = new Map<string, readonly string[]>();
  for (const { fence, entries } of copiedTakes) {
    const known = largest.get(fence) ?? [];
    const [more, fewer] = entries.length > known.length ? [entries, known] : [known, entries];
    largest.set(fence, more);
    const others = fewer.filter((entry) => !more.includes(entry));
    judge("U2", others.length > 0 && `a step that was repeated took ${more.join()}, and ${others.join()} besides`);
  }
};

const failsOf = (story: Story | undefined, key: string): number =>
  story?.adds.flatMap(({ jobs }) => jobs).find((job) => job.key === key)?.fails ?? 0;

const checkKept = (run: RunHistory, story: Story, judge: Judge): void => {
  const { job, runs, adds } = story;
  const acknowledged = adds.find(({ outcome, isAdded }) => outcome === "ok" && isAdded !== false);
  // The last data of a key may replace this one: `checkUnique` judges that.
  if (!acknowledged || acknowledged.unique?.mode === "keepLast" || run.letters.size === 0) return;
  if (mayBeCancelled(story) || mayHaveExpired(run, story)) return;
  const [name = "", key = ""] = job.split(" ");
  const isDurable = run.specs.some((spec) => spec.name === name && spec.isDurable);
  const losses = isDurable ? run.losses.filter(({ what }) => what === "all" || what === "newest") : run.losses;
  // A former try, whose outcome is unknown, may have stored it.
  const from = Math.min(...adds.map(({ startedAt }) => startedAt));
  if (mayBeLost({ losses }, from, acknowledged.settledAt)) return;
  const isDead = run.letters.get(name)?.some((letter) => letter.key === key) === true;
  const isRun = runs.some(({ after }) => after.some(({ how }) => how === "ok"));
  judge("kept", !isDead && !isRun && `${job} was added, and neither ran to its end nor is a dead letter`);
};

const checkRuns = (run: RunHistory, { job, runs }: Story, judge: Judge): void => {
  for (const [index, former] of runs.entries()) {
    const next = runs[index + 1];
    const done = saw(former, "done");
    const isLossy = next !== undefined && mayBeLost(run, former.at - run.leaseMs, next.at);
    if (done) judge("ended", next !== undefined && !isLossy && next.at > done.at && `${job} began after its end`);
    if (!next || isLossy) continue;
    const isHandedBack = former.worker.records.some(
      (record) => record.kind === "call" && record.what === "close" && record.startedAt < next.at,
    );
    const isLost = saw(former, "lost") !== undefined;
    const isCounted = (["attempt", "crashes", "snoozes"] as const).some((one) => next[one] > former[one]);
    const isExplained = isCounted || isLost || isHandedBack;
    judge("repeats", !isExplained && `${job} ran again as attempt ${String(next.attempt)}, without a reason`);
    if (next.crashes === former.crashes) continue;
    judge(
      "fenced",
      done !== undefined && done.at > next.at && `${job}: the server accepted an end after the lease was lost`,
    );
    checkAborted(run, job, former, next, judge);
  }
};

const checkCrashes = (run: RunHistory, { job, runs }: Story, silences: readonly Span[], judge: Judge): void => {
  for (const [index, { at, crashes }] of runs.entries()) {
    if (crashes <= (runs[index - 1]?.crashes ?? 0)) continue;
    // A lease that began while the server's clock was ahead ends that much later.
    const from = run.isShifted ? -Infinity : at - 3 * run.leaseMs - lateMs;
    const isInterrupted = run.outages.some((one) => !isHarmless(one.kind) && one.from <= at && one.to >= from);
    const isStalled = run.workers.some((one) => stalledIn(one, from, at) > run.leaseMs / 4);
    const isSilent = silences.some(({ from: begin, to }) => begin <= at && to >= from);
    judge("charged", !isInterrupted && !isStalled && !isSilent && `${job} was charged a crash without one`);
  }
};

const checkCall = (run: RunHistory, { job, runs }: Story, call: AddCall, judge: Judge): void => {
  const { outcome, code, isOwn, attempts = 0, crashes = 0, startedAt, settledAt } = call;
  const isRun = runs.some(({ after }) => after.some(({ how }) => how === "ok"));
  if (outcome === "ok")
    judge("called", !(isOwn && isRun) && `${job} resolved its call with another result, or without running`);
  const fails = call.jobs[0]?.fails ?? 0;
  const most = run.specs.find(({ name }) => name === call.name)?.work.maxCrashes ?? 0;
  const isDead = attempts >= maxAttempts ? fails >= maxAttempts : crashes >= most;
  if (code === "KIT_JOB_FAILED") judge("called", !isDead && `${job} rejected its call, and is no dead letter`);
  const isLost = mayBeLost(run, startedAt, settledAt);
  if (code === "KIT_JOB_OUTCOME_LOST") judge("called", !isLost && `${job} lost its outcome`);
};

/** Allowed for timers and the machine. */
const abortMs = 100 * patience;

const checkAborted = (run: RunHistory, job: string, former: Begun, next: Begun, judge: Judge): void => {
  const { worker } = former;
  const ranAt = saw(former, "ran")?.at ?? Infinity;
  if (run.isShifted || worker.id === next.worker.id || ranAt <= next.at) return;
  if ((worker.killedAt ?? Infinity) < next.at + run.leaseMs || worker.end !== "exit 0") return;
  const abortedAt = Math.min(saw(former, "lost")?.at ?? Infinity, ranAt);
  const lateBy = abortedAt - next.at - stalledIn(worker, next.at - abortMs, abortedAt);
  judge(
    "aborted",
    lateBy > abortMs && `${job} began elsewhere ${lateBy.toFixed(0)} ms before the signal of ${worker.id} aborted`,
  );
};

const checkDeath = (run: RunHistory, death: Death, story: Story | undefined, judge: Judge): void => {
  const former = story?.runs.findLast(({ worker }) => worker.id === death.worker);
  const next = former && story?.runs.find(({ at }) => at > former.at);
  if (!former || !next || mayBeLost(run, former.at, next.at)) return;
  const tookMs = next.at - death.endsAt;
  const stalledMs = stalledByAll(run.workers, death.endsAt, next.at);
  const allowedMs = run.leaseMs * 0.1 + stalledMs + lateMs;
  judge(
    "lease",
    tookMs > allowedMs &&
      `${death.name} ${death.key} began ${tookMs.toFixed(0)} ms after its lease, stalled ${stalledMs.toFixed(0)} ms`,
  );
};

/** The time until a handler is free, since all of them may have a long job. */
const lateMs = 400 * patience;

/** The handlers that began. */
export const progressIn = (record: LogRecord): readonly Progress[] =>
  record.kind === "access" ? [{ what: record.name, from: record.at, at: record.at }] : [];

export const workOf = (run: RunHistory): Work => ({ done: workIn(run, progressIn) });

/** The number of runs that were not the first of their attempt. */
export const repeatsOf = (run: RunHistory): number =>
  storiesOf(run).reduce(
    (sum, { runs }) => sum + runs.filter((one, index) => runs[index - 1]?.attempt === one.attempt).length,
    0,
  );
