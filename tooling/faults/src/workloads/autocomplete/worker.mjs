// A process that searches three indexes while it changes them:
//
// - one by weight that all processes share, in which each has entries of its own
// - one of its own, which it rebuilds at the same time
// - one that all processes rebuild
//
// It logs each change before it makes it.
import { pause } from "@kit/core/toolkit";
import { clock, seeded } from "@tooling/lab";
import {
  attempt,
  connected,
  farewell,
  isLeaving,
  wasOrdered,
  left,
  log,
  noteBackground,
  settings,
  subject,
} from "../../lab/contender.mjs";

const { id, prefix, deadlineMs, restMs, number } = settings;
const { createPrefixIndex } = subject;

const client = await connected(settings.url, id);
const make = (name, options) => {
  const index = createPrefixIndex(client, name, { prefix, deadlineMs, ...options });
  index.on("error", noteBackground);
  return [name, index];
};
const names = make("names", { order: "weight" });
const own = make(`own${number}`, {});
const catalogue = make("catalogue", {});
log("started", { pid: process.pid });

const upTo = (random, most) => 1 + Math.floor(random() * most);
const rest = (random) => pause(random() * restMs);

/** Repeats a call until it succeeds or the worker leaves. */
const insist = async (what, name, change) => {
  for (;;) {
    const isDone = await attempt(what, name, deadlineMs, async () => {
      await change();
      return true;
    });
    if (isDone || isLeaving()) return isDone === true;
    await pause(20);
  }
};

/** The source for rebuilds of the own index. It changes before the index does. */
const truth = new Map();

const change = async (random, [name, index], entryId) => {
  let known = null;
  for (let turn = 1; !isLeaving(); turn++) {
    const op = `${entryId}-${turn}`;
    const dice = random();
    const isTouch = known && name === "names" && dice < 0.3;
    const by = upTo(random, 100);
    let next = null;
    if (isTouch) next = { ...known, weight: known.weight + by };
    else if (dice < 0.85)
      next = { text: `${entryId} ${["Ann", "Bob", "Cy"][turn % 3]} ${turn}`, weight: upTo(random, 9) };
    if (!known && !next) continue;
    log("intends", { index: name, id: entryId, state: next });
    truth.set(entryId, next);
    const isDone = await insist(isTouch ? "touch" : next ? "put" : "delete", name, async () => {
      if (isTouch) await index.touch(entryId, { by, op });
      else if (next) await index.put({ id: entryId, payload: { turn }, ...next }, { op });
      else await index.delete(entryId, { op });
    });
    if (!isDone) return;
    log("done", { index: name, id: entryId, state: next });
    known = next;
    // Searched by its first word and by a later one.
    const found = await attempt("suggest", name, 4 * deadlineMs, () => index.suggest(`${entryId} `));
    if (found) {
      const shown = found.items.map(({ text, weight }) => `${text} (${weight})`).join();
      const wanted = known ? `${known.text} (${known.weight})` : "";
      log("saw", { invariant: "P1", wrong: shown !== wanted && `${name} has "${shown}", not "${wanted}"` });
    }
    await rest(random);
  }
};

const rebuildOwn = async (random) => {
  const [name, index] = own;
  const source = async function* () {
    for (const [entryId, state] of truth) {
      if (state) yield { id: entryId, ...state };
      await pause(1);
    }
  };
  while (!isLeaving()) {
    await attempt("rebuild", name, 20 * deadlineMs, () => index.rebuild(source()));
    await rest(random);
  }
};

const items = 120;
const rebuildAll = async (random) => {
  const [name, index] = catalogue;
  for (let turn = 1; !isLeaving(); turn++) {
    const entries = Array.from({ length: items }, (_, at) => ({
      id: `${at}`,
      text: `Item ${at}`,
      payload: `${id}/${turn}`,
    }));
    await attempt("rebuild", name, 20 * deadlineMs, () => index.rebuild(entries));
    await pause(random() * 300);
  }
};

const search = async (random) => {
  const [name, index] = catalogue;
  while (!isLeaving()) {
    const found = await attempt("suggest", name, 4 * deadlineMs, () => index.suggest("it", { limit: 200 }));
    if (found) {
      const of = new Set(found.items.map(({ payload }) => payload));
      const isWhole = found.items.length === 0 || (found.items.length === items && of.size === 1);
      log("saw", { invariant: "P4", wrong: !isWhole && `${found.items.length} items of ${[...of].join()}` });
    }
    await rest(random);
  }
};

const obey = async (random) => {
  while (!isLeaving()) {
    if (wasOrdered("block")) {
      const from = clock();
      const until = from + settings.leaseMs * (1.2 + 0.6 * random());
      while (clock() < until);
      log("blocked", { from, to: clock() });
    }
    await pause(10);
  }
};

const owners = [names, names, names, own, own, own, own];
const loops = [
  ...owners.map((index, at) => (random) => change(random, index, `w${number}x${at}`)),
  ...[rebuildOwn, rebuildAll, search, search, obey],
];
const working = loops.map((loop, index) => loop(seeded(settings.seed * 31 + index)));
await left;
await Promise.all(working);
await Promise.all([names, own, catalogue].map(([, index]) => index.close()));
await client.close();
farewell();
