// A process that sends to all chats, reads those of one member with a token and those of another as a listener, and works
// on the mailbox.
import { pause, slotOf } from "@kit/core/toolkit";
import { clock } from "@tooling/lab";
import {
  attempt,
  closing,
  connected,
  detail,
  isLeaving,
  left,
  log,
  noteBackground,
  obey,
  outcomeOf,
  pick,
  repeating,
  run,
  seekMaster,
  settings,
  subject,
  subjectClient,
  timed,
} from "../../lab/contender.mjs";

const { id, prefix, specs, mailbox: mailboxName, members, reader, listener, leaseMs, deadlineMs } = settings;
const { createChat } = subject;

const bodyOf = (name) => name.padEnd(settings.bodyBytes, ".");
const nameOf = (body) => body.replace(/\.+$/, "");
// Each command of a call has a deadline of its own; a new connection sends two more.
const dueMs = (commands) => (commands + 2) * deadlineMs;

const client = await subjectClient(settings.url);
const looking = await connected(settings.lookUrl, "-look");
const chat = createChat(client, { prefix, deadlineMs });
chat.on("error", noteBackground);
const mailbox = chat.mailbox(mailboxName);

// ── chats, which the server may lose ────────────────────────────────────────────────────────────────────────────────

const make = async () => {
  for (const { name, retain, whenFull } of specs) {
    await attempt("create", name, dueMs(1), () =>
      chat.create(name, { members, retain, whenFull, maxBodyBytes: settings.bodyBytes }),
    );
    // Joins even if the chat existed, since a member's record may be lost.
    for (const member of [reader, listener])
      await attempt("join", name, dueMs(1), () => chat.join(name, member, { history: "all" }));
  }
};

let asked = 0;

/** Makes a call, and creates its chat again if the server has none. It is logged before it is made: see `begun`. */
const ask = async (what, name, commands, run, facts, about) => {
  const call = { ...about, number: ++asked };
  log("begun", { what, name, at: clock(), ...call });
  const settled = timed(what, name, dueMs(commands));
  try {
    const value = await run();
    settled("ok", { ...call, ...facts(value) });
    return value;
  } catch (error) {
    settled(outcomeOf(error), { ...call, ...detail(error) });
    if (["KIT_CHAT_UNKNOWN", "KIT_CHAT_NOT_MEMBER"].includes(error.code)) await make();
    return what === "send" && error.code === "KIT_UNKNOWN_OUTCOME" ? "unknown" : undefined;
  }
};

// ── sending ─────────────────────────────────────────────────────────────────────────────────────────────────────────

let sends = 0;

const send = async (random) => {
  const name = pick(random, [...specs.map((spec) => spec.name), mailboxName]);
  const clientId = `${id}-${++sends}`;
  const about = { from: pick(random, members), id: clientId };
  const message = { from: about.from, body: bodyOf(clientId), clientId };
  const run = () => (name === mailboxName ? mailbox.send(message) : chat.send(name, message));
  // Repeated until the outcome is known, and sometimes once more than needed.
  for (let tries = 0; tries < 6; tries++) {
    const answer = await ask("send", name, 2, run, ({ seq, at }) => ({ seq, at }), about);
    if (answer !== "unknown" && (answer === undefined || random() > 0.1)) return;
  }
};

// ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const given = ({ chat: name, messages, gap, reset }) => ({
  chat: name,
  messages: messages.map(({ seq, at, body }) => [seq, at, nameOf(body)]),
  gap,
  reset,
});

const ack = async (random, member, { chat: name, messages }) => {
  // Sometimes an older message than the last one: the position must not move back.
  const message = random() < 0.2 ? messages[0] : messages.at(-1);
  if (!message) return;
  await pause(random() < 0.2 ? random() * 100 : 0);
  await ask(
    "ack",
    name,
    1,
    () => chat.ack(member, message),
    () => ({}),
    { member, seq: message.seq },
  );
};

const fetchAll = async (number, random) => {
  let token;
  for (let page = 0; ;) {
    if (random() < 0.02 && !isLeaving()) token = undefined;
    if (token === undefined) page++;
    // A reader that leaves reads to the end first, faster than others write.
    const isEnd = isLeaving();
    const about = { member: reader, chain: `${id}.${number}.${page}`, isFirst: token === undefined };
    const options = { token, limit: isEnd ? 10_000 : 1 + Math.floor(random() * 60) };
    const facts = ({ chats, more }) => ({ given: chats.map(given), isLast: isEnd && !more });
    const news = await ask("fetch", "", 6, () => chat.fetch(reader, options), facts, about);
    if (news) ({ token } = news);
    if (isEnd && news?.more === false) return;
    if (!isEnd && news) {
      for (const one of news.chats) if (random() < 0.7) await ack(random, reader, one);
      if (!news.more) await attempt("wait", "", 200 + dueMs(1), () => chat.wait(reader, { token, waitMs: 200 }));
    }
    // A reader that leaves goes on at once. The others pause, so that backlogs occur.
    await pause(isEnd ? 10 : random() * settings.restMs * (random() < 0.05 ? 20 : 1));
  }
};

const stopListening = new AbortController();
void left.then(() => stopListening.abort());

const listen = async (random) => {
  for (let life = 1; !isLeaving(); life++) {
    const chain = `${id}.l.${life}`;
    try {
      await chat.listen(listener, { signal: stopListening.signal }).each(
        async (message) => {
          const { gap, reset } = message;
          const one = given({ chat: message.chat, messages: [message], gap, reset });
          log("heard", { member: listener, chain, at: clock(), given: [one] });
          await pause(random() * 5);
        },
        { concurrency: 4 },
      );
    } catch (error) {
      if (!stopListening.signal.aborted) noteBackground(error);
    }
    await pause(settings.restMs);
  }
};

// ── the mailbox ─────────────────────────────────────────────────────────────────────────────────────────────────────

const settle = (how, message, ms = leaseMs) => {
  const { seq, body, deliveries } = message;
  const about = { how, seq, id: nameOf(body), deliveries, leaseMs: ms };
  const run = () => (how === "extend" ? message.extend(ms) : message[how]());
  return ask("settle", mailboxName, 1, run, (isDone) => ({ isDone }), about);
};

const work = async (random) => {
  const limit = 1 + Math.floor(random() * 5);
  const waitMs = Math.floor(random() * 200);
  const taken = (messages) => ({
    taken: messages.map(({ seq, body, deliveries }) => ({ seq, id: nameOf(body), deliveries })),
  });
  // The first call may have to create the mailbox. A waiting `take` reads twice.
  const commands = 6 + waitMs / deadlineMs;
  const messages = await ask("take", mailboxName, commands, () => mailbox.take({ limit, leaseMs, waitMs }), taken, {
    limit,
    leaseMs,
  });
  if (!Array.isArray(messages)) return;
  for (const message of messages) {
    const roll = random();
    await pause(random() * (roll < 0.05 ? 1.5 * leaseMs : 5));
    // Not settled: the message is delivered again when its lease ends.
    if (roll > 0.97) continue;
    if (roll > 0.8) await settle("extend", message, Math.ceil(leaseMs * random()) + 1);
    await settle(roll > 0.75 && roll < 0.8 ? "release" : "ack", message);
  }
};

// ── reads of stored state ───────────────────────────────────────────────────────────────────────────────────────────

// A replica would show what its master was a moment ago: the server of an address may have become one. Only the refusal of a
// write makes the client look for its master.
const isMaster = settings.looksByWrite ? "redis.call('UNLINK', KEYS[1] .. ':none')" : "";

const lookScript = `${isMaster}
  local head, floor = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '0 0', '^(%d+) (%d+)')
  local newest = redis.call('XREVRANGE', KEYS[2], '+', string.format('%d', floor + 1), 'COUNT', 100)
  local own = {}
  for i = 4, #KEYS do own[i - 3] = string.match(redis.call('HGET', KEYS[i], ARGV[1]) or '-1', '^[-%d]+') end
  return { head, floor, #newest, newest[#newest] and newest[#newest][1] or '', newest[1] and newest[1][1] or '',
    redis.call('ZRANGE', KEYS[3], 0, -1, 'WITHSCORES'), own }`;

const look = async (name) => {
  const base = `${prefix}:chat:{${slotOf(name) % 16}}`;
  const known = name === mailboxName ? [name] : members;
  const keys = [`${base}:heads`, `${base}:messages:${name}`, `${base}:positions:${name}`];
  const own = known.map((member) => `${base}:member:${member}`);
  const from = clock();
  try {
    // The reply may be lost with a killed connection, so the wait is bounded.
    const late = pause(1_000).then(() => undefined);
    const asked = looking.call("EVAL", lookScript, keys.length + own.length, ...keys, ...own, name);
    const found = await Promise.race([asked, late]);
    if (!found) return;
    const [head, floor, count, first, last, scores, positions] = found;
    log("access", {
      name,
      from,
      at: clock(),
      head: Number(head),
      floor: Number(floor),
      newest: { count, first: Number.parseInt(first, 10), last: Number.parseInt(last, 10) },
      positions: Object.fromEntries(known.map((member) => [member, Number(scores[scores.indexOf(member) + 1] ?? -1)])),
      own: Object.fromEntries(known.map((member, at) => [member, Number(positions[at])])),
    });
  } catch (error) {
    seekMaster(looking, error);
    await pause(50);
  }
};

const lookAround = async (random) => {
  await look(pick(random, [...specs.map((spec) => spec.name), mailboxName]));
  const member = pick(random, members);
  const facts = (counts) => ({ counts: Object.fromEntries(counts) });
  if (random() < 0.5) await ask("unread", "", 3, () => chat.unread(member), facts, { member });
};

// ── start and end ───────────────────────────────────────────────────────────────────────────────────────────────────

await make();
const routines = [send, send, send, work, work, lookAround].map((routine) => repeating(routine));
const fetching = [10, 11].map((number) => (random) => fetchAll(number, random));
await run([...routines, obey, ...fetching, listen], () => closing(3_000, () => chat.close({ timeoutMs: 2_500 })));
