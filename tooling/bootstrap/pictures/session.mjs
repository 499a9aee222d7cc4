import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { root } from "../repo.mjs";
import { capture } from "../run.mjs";

/** The commands whose output is shown. */
const commands = ["kit list", "kit inspect lock item:42", "kit inspect queue mail"];

/**
 * Runs kit on a server of its own that has something to show, and resolves with what it printed.
 * @param {NodeJS.ProcessEnv} env With `REDIS_SERVER_BIN`.
 */
export async function session(env) {
  // The packages are those of the command line, since only they are what it finds.
  const from = createRequire(join(root, "packages/cli/package.json"));
  const load = (/** @type {string} */ name) => import(pathToFileURL(from.resolve(name)).href);
  process.env["REDIS_SERVER_BIN"] ??= env["REDIS_SERVER_BIN"];
  const { startRedis } = await load("@kit/testing");
  const { connect } = await load("@kit/core");
  const server = await startRedis();
  const redis = await connect(server.url);
  const close = await fill(redis, load);
  try {
    const parts = [];
    for (const command of commands) {
      const args = [join(root, "packages/cli/dist/main.js"), ...command.split(" ").slice(1)];
      const { stdout } = await capture(process.execPath, args, {
        env: { ...env, REDIS_URL: server.url, NO_COLOR: "1", COLUMNS: "100" },
      });
      parts.push(`$ ${command}\n${stdout.trimEnd()}\n`);
    }
    return parts.join("\n");
  } finally {
    await close();
    await redis.close();
    await server.stop();
  }
}

/**
 * A lock with waiters, a semaphore in use, jobs, a chat and a counter.
 * @param {unknown} redis
 * @param {(name: string) => Promise<any>} load
 * @returns {Promise<() => Promise<void>>} Ends all that it began.
 */
async function fill(redis, load) {
  const [{ createLock }, { createSemaphore }, { createQueue }, { createChat }, { createStats }] = await Promise.all(
    ["lock", "semaphore", "queue", "chat", "stats"].map((name) => load(`@kit/${name}`)),
  );
  const locks = ["web-1", "web-2", "web-3"].map((holder) => createLock(redis, { holder }));
  await locks[0].acquire("item:42");
  const waiting = locks.slice(1).map((lock) => queued(lock, () => lock.acquire("item:42")));
  const tables = createSemaphore(redis, "tables", { permits: 8, holder: "web-1" });
  await tables.acquire({ weight: 5 });
  const queue = createQueue(redis, "mail");
  for (const to of ["ann", "bob", "cy"]) await queue.add("email", { to });
  await queue.add("email", { to: "di" }, { delayMs: 3_600_000 });
  const chat = createChat(redis);
  await chat.create("order:17", { members: ["buyer", "seller"] });
  await chat.send("order:17", { from: "buyer", body: "Is the lamp still there?" });
  const stats = createStats(redis);
  await stats.counter("visits_total").add(1_893);
  await Promise.all(waiting);
  return async () => {
    for (const one of [...locks.toReversed(), tables, queue, chat, stats]) await one.close({ timeoutMs: 0 });
  };
}

/**
 * Resolves once the call waits in the queue of its lock; the call itself ends when the lock is closed.
 * @param {import("node:events").EventEmitter} lock
 * @param {() => Promise<unknown>} call
 */
function queued(lock, call) {
  const waits = new Promise((resolve) => lock.once("waiting", resolve));
  call().catch(() => undefined);
  return waits;
}
