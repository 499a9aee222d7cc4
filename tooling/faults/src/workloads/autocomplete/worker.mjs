// A process that searches three indexes while it changes them:
//
// - one by weight that all processes share, in which each has entries of its own
// - one of its own, which it rebuilds at the same time
// - one that all processes rebuild
//
// It logs each change before it makes it.
import { pause } from "@kit/core/toolkit";
import {
  attempt,
  insist,
  isLeaving,
  log,
  noteBackground,
  obey,
  repeating,
  run,
  settings,
  subject,
  subjectClient,
  upTo,
} from "../../lab/contender.mjs";

const { id, prefix, deadlineMs, restMs, number } = settings;
const { createPrefixIndex } = subject;

const client = await subjectClient(settings.url);
const make = (name, options) => {
  const index = createPrefixIndex(client, name, { prefix, deadlineMs, ...options });
  index.on("error", noteBackground);
  return [name, index];
};
const names = make("names", { order: "weight" });
const own = make(`own${number}`, {});
const catalogue = make("catalogue", {});

const rest = (random) => pause(random() * restMs);

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
    const isDone = await insist(isTouch ? "touch" : next ? "put" : "delete", name, deadlineMs, async () => {
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

const rebuildOwn = repeating(async () => {
  const [name, index] = own;
  const source = async function* () {
    for (const [entryId, state] of truth) {
      if (state) yield { id: entryId, ...state };
      await pause(1);
    }
  };
  await attempt("rebuild", name, 20 * deadlineMs, () => index.rebuild(source()));
});

const items = 120;
let turns = 0;
const rebuildAll = repeating(async () => {
  const [name, index] = catalogue;
  const payload = `${id}/${++turns}`;
  const entries = Array.from({ length: items }, (_, at) => ({ id: `${at}`, text: `Item ${at}`, payload }));
  await attempt("rebuild", name, 20 * deadlineMs, () => index.rebuild(entries));
}, 300);

const search = repeating(async () => {
  const [name, index] = catalogue;
  const found = await attempt("suggest", name, 4 * deadlineMs, () => index.suggest("it", { limit: 200 }));
  if (!found) return;
  const of = new Set(found.items.map(({ payload }) => payload));
  const isWhole = found.items.length === 0 || (found.items.length === items && of.size === 1);
  log("saw", { invariant: "P4", wrong: !isWhole && `${found.items.length} items of ${[...of].join()}` });
});

const owners = [names, names, names, own, own, own, own];
const changes = owners.map((index, at) => (random) => change(random, index, `w${number}x${at}`));
await run([...changes, rebuildOwn, rebuildAll, search, search, obey], () =>
  Promise.all([names, own, catalogue].map(([, index]) => index.close())),
);
