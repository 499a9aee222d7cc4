// A process with a reader of every entry and one component. It writes entries now and then, makes durable writes, and logs
// every change that its readers show.
import { optimistic } from "@kit/core";
import { pause } from "@kit/core/toolkit";
import { clock } from "@tooling/lab";
import {
  attempt,
  closing,
  detail,
  isLeaving,
  log,
  noteBackground,
  obey,
  outcomeOf,
  pick,
  repeating,
  run,
  settings,
  subject,
  subjectClient,
  timed,
  wasOrdered,
} from "../../lab/contender.mjs";

const { id, prefix, names, rolledName, wiredName, keys, replicas, deadlinesMs } = settings;
const { createConfig, createComponent, withComponent, durable } = subject;

// ── readers ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const isValue = (value) => typeof value?.id === "string" && value.id !== "";
const schema = {
  "~standard": {
    version: 1,
    vendor: "fault-lab",
    validate: (value) => (isValue(value) ? { value } : { issues: [{ message: "expected an id" }] }),
  },
};

const lookMs = 10;
const shown = new Map();
let reads = 0;

/** Reads the value of one reader, as an application does at any time. Logs it if it is new. */
const look = (config) => {
  const { name } = config;
  const before = shown.get(name);
  reads++;
  try {
    const { id: valueId } = config.current;
    const { version } = config;
    if (before?.version && !version) log("odd", { name, what: "it shows its default after a value that was set" });
    if (!isValue({ id: valueId })) log("odd", { name, what: `it shows ${JSON.stringify(valueId)}` });
    if (before?.id === valueId && before.version?.at === version?.at) return;
    shown.set(name, { id: valueId, version });
    log("shows", { name, version, id: valueId, at: clock() });
  } catch (error) {
    if (before) log("odd", { name, what: `current threw ${String(error)} after the first value` });
  }
};

const readerOf = (client, name) => {
  const config = createConfig(client, name, {
    schema,
    default: { id: "default" },
    maxHistory: 100,
    prefix,
    deadlineMs: deadlinesMs[0],
  });
  config.on("change", () => look(config));
  config.on("state", (state) => log("state", { name, state, at: clock() }));
  config.on("error", noteBackground);
  log("state", { name, state: config.state, at: clock() });
  return config;
};

// ── writes of entries ───────────────────────────────────────────────────────────────────────────────────────────────

const versionOf = ({ epoch, revision, at }) => ({ epoch, revision, at });
const mostTries = 6;
let writes = 0;

/** Repeats a write by the same operation id until its outcome is known, and sometimes once more than needed. */
const persist = async (what, name, about, write, random, isBrief = false) => {
  const op = `${id}.${++writes}`;
  // Logged before the request, since a worker that is killed before the reply may have written.
  log("asks", { name, op });
  for (let tries = 1; tries <= mostTries; tries++) {
    const deadlineMs = isBrief ? deadlinesMs[0] : pick(random, deadlinesMs);
    const settled = timed(what, name, deadlineMs);
    try {
      const version = await write(op, { ...about, op, author: id, deadlineMs });
      settled("ok", { ...about, op, version: versionOf(version) });
      if (tries > 1 || random() > 0.1) return op;
    } catch (error) {
      const outcome = outcomeOf(error);
      settled(outcome, { ...about, op, ...detail(error) });
      if (outcome !== "unknown") return undefined;
      await pause(20 * tries);
    }
  }
  return undefined;
};

const valueOf = (op) => ({ id: op, by: id });

const setSome = (config, random) => {
  const roll = random();
  const { version } = config;
  // Not always the version of the own reader, so that writes of other workers are met.
  const expected = roll < 0.5 ? undefined : roll < 0.55 || !version ? null : versionOf(version);
  const about = expected === undefined ? {} : { expected };
  return persist("set", config.name, about, (op, options) => config.set(valueOf(op), options), random);
};

const sightOf = ({ value, ...version }) => ({ version: versionOf(version), id: value.id });

const rollBack = async (config, random) => {
  const deadlineMs = pick(random, deadlinesMs);
  const kept = await attempt(
    "history",
    config.name,
    deadlineMs,
    () => config.history({ limit: 5, deadlineMs }),
    (found) => ({ seen: found.map(sightOf) }),
  );
  const target = kept?.at(-1);
  if (!target || config.name !== rolledName) return;
  await persist("rollback", config.name, {}, (_, options) => config.rollback(target.revision, options), random);
};

const configure = repeating(async (random) => {
  const config = pick(random, written);
  const roll = random();
  if (roll < 0.65) return await setSome(config, random);
  if (roll < 0.8) return await rollBack(config, random);
  const deadlineMs = pick(random, deadlinesMs);
  const get = () => config.get({ deadlineMs });
  return await attempt("get", config.name, deadlineMs, get, (value) => ({ id: value.id }));
});

const flapMs = 2_000;
const flapEveryMs = 20;

/** Changes one entry in quick succession. The last write must win. */
const flap = async (config, random) => {
  const from = clock();
  let count = 0;
  let last;
  while (clock() < from + flapMs && !isLeaving()) {
    const dueAt = clock() + flapEveryMs;
    const op = await persist("set", config.name, {}, (now, options) => config.set(valueOf(now), options), random, true);
    if (op !== undefined) {
      last = op;
      count++;
    }
    await pause(Math.max(0, dueAt - clock()));
  }
  log("flapped", { name: config.name, from, to: clock(), writes: count, last });
};

const flapOnOrder = repeating((random) => (wasOrdered("flap") ? flap(wired, random) : undefined), 2 * lookMs);

// ── the component ───────────────────────────────────────────────────────────────────────────────────────────────────

/** The component's connections are objects that record whether they were closed. */
const wire = (client) => {
  let newest;
  const component = createComponent(client, wiredName, {
    schema,
    prefix,
    deadlineMs: deadlinesMs[0],
    open: (entry) => {
      newest = entry.id;
      return { id: entry.id, isOpen: true };
    },
    close: (connection) => void (connection.isOpen = false),
  });
  component.on("swap", () => log("swap", { id: newest, at: clock() }));
  component.on("error", noteBackground);
  component.on("degraded", noteBackground);
  return component;
};

const useComponent = async (random) => {
  const use = withComponent(component, async (connection, forMs) => {
    const began = connection.isOpen;
    await pause(forMs);
    if (!began || !connection.isOpen)
      log("odd", { name: component.name, what: `a call ${began ? "lost its" : "was given a closed"} connection` });
  });
  const waitMs = 1_000;
  const isReady = () =>
    attempt("component", component.name, waitMs, async () => {
      await component.ready({ waitMs });
      return true;
    });
  while (!isLeaving() && !(await isReady()));
  await repeating((chance) => use(chance() * 50))(random);
};

// ── durable writes ──────────────────────────────────────────────────────────────────────────────────────────────────

let effects = 0;

/** The durability to request: without replicas the disk, else one or all of the replicas. */
const wishOf = (random) => {
  const roll = random();
  if (replicas === 0)
    return roll < 0.9 ? { replicas: 0, fsync: "local", timeoutMs: 300 } : { replicas: 1, fsync: "none", timeoutMs: 40 };
  if (roll < 0.05) return { replicas: 0, fsync: "local", timeoutMs: 300 };
  return { replicas: roll < 0.75 ? replicas : 1, fsync: "none", timeoutMs: roll < 0.4 ? 100 : 500 };
};

const endure = repeating(async (random) => {
  const { timeoutMs, ...wanted } = wishOf(random);
  const effect = `${id}-${++effects}`;
  const key = pick(random, keys);
  const deadlineMs = timeoutMs + pick(random, deadlinesMs);
  const isList = random() < 0.7;
  const write = (scope) =>
    isList ? scope.call("RPUSH", `${key}:list`, effect) : scope.call("SET", `${key}:set:${effect}`, id);
  const answer = await attempt(
    "durable",
    key,
    deadlineMs,
    () => durable(client, { key: `${key}:list`, ...wanted, timeoutMs, deadlineMs }, write),
    ({ outcome: answered, replicas: reached, fsync, why }) => ({ answer: answered, replicas: reached, fsync, why }),
    { id: effect, wanted },
  );
  if (answer?.outcome === "short") log("short", {});
});

// ── optimistic transactions ─────────────────────────────────────────────────────────────────────────────────────────

const transactMs = 1_000;
/** The commands of the last try, each with its deadline, and a new connection. */
const transactDueMs = transactMs + 4 * 2_000;

/** A connection that never writes is never told that its server became a replica. So some workers only read. */
const isAdding = Number(/\d+/.exec(id)?.[0]) % 2 === 1;

/** Adds one to a counter, or reads it: both by what a transaction of its own sees. */
const transact = repeating(async (random) => {
  const key = `${pick(random, keys)}:counter`;
  const run = async (transaction) => {
    const saw = Number((await transaction.call("GET", key)) ?? 0);
    if (isAdding) transaction.queue("SET", key, String(saw + 1));
    return saw;
  };
  const what = isAdding ? "add" : "see";
  const transacted = () => optimistic(client, [key], run, { waitMs: transactMs });
  await attempt(what, key, transactDueMs, transacted, ({ value }) => ({ saw: value }));
});

// ── start and end ───────────────────────────────────────────────────────────────────────────────────────────────────

const client = await subjectClient(settings.url);
const configs = names.map((name) => readerOf(client, name));
const component = wire(client);
const looking = setInterval(() => configs.forEach(look), lookMs);
const written = configs.filter(({ name }) => name !== wiredName);
const wired = configs.find(({ name }) => name === wiredName);

/** The component needs an entry to connect by. */
const setFirst = (random) =>
  persist("set", wiredName, { expected: null }, (op, options) => wired.set(valueOf(op), options), random);

const durables = Array.from({ length: settings.loops }, () => endure);
await run([setFirst, configure, flapOnOrder, obey, useComponent, transact, ...durables], async () => {
  clearInterval(looking);
  log("reads", { count: reads });
  await closing(3_000, () => Promise.all([component, ...configs].map((object) => object.close())));
});
