// A buyer is stopped in the middle of its purchase for longer than its lease. Another one buys. Then the first
// continues.
import { type ChildProcess, fork } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { type Connection, connect, keyspace } from "@kit/core";
import type { Lock } from "@kit/lock";
import { classicKeys, purchaseItemWithOwnerlessLock } from "@tooling/classic";
import type { Redis } from "ioredis";
import { ownChild, runChild } from "./child.js";
import type { HolderSays, HolderTask } from "./holder.js";
import { Market } from "./market.js";
import type { Place } from "./place.js";
import type { Recount } from "./recount.js";
import { openMarket, type World } from "./seed/index.js";

export type PauseWay = HolderTask["way"];

interface PauseStep {
  readonly atMs: number;
  readonly text: string;
}

export interface PauseResult {
  readonly way: PauseWay;
  readonly title: string;
  readonly first: string;
  readonly second: string;
  readonly steps: readonly PauseStep[];
  readonly firstOutcome: string;
  readonly secondOutcome: string;
  /** Buyers whose purchase was answered with `sold`. */
  readonly told: number;
  readonly recount: Recount;
}

const lifeMs = 10 * 60_000;
const leaseMs = 2_000;
const limitMs = 30_000;
const ownerlessSeconds = 2;

interface Deps {
  readonly redis: Connection;
  readonly lock: Lock;
  readonly place: Place;
  readonly world: World;
}

/** Isolates text from right to left, so that it does not change the direction of the sentence. */
const isolated = (name: string): string => `\u2068${name}\u2069`;

const next = async (child: ChildProcess): Promise<HolderSays> => {
  const [message] = (await once(child, "message", { signal: AbortSignal.timeout(limitMs) })) as [HolderSays];
  return message;
};

/** Runs the scene once, on a small market of its own. */
export const playPause = async ({ redis, lock, place, world }: Deps, way: PauseWay): Promise<PauseResult> => {
  const market = `race-${randomBytes(6).toString("hex")}`;
  const classicPrefix = keyspace("shop", place.prefix).key(market, "classic:");
  const thing = world.items.find(({ price }) => price !== null) ?? world.items[0];
  const people = world.users.filter(({ isSeller }) => !isSeller);
  const [seller, ada, bo] = [world.users[0], people[0], people[1]];
  if (!thing?.price || !seller || !ada || !bo) throw new Error("the scene needs three people and a thing");
  const { price, title } = thing;
  const [first, second] = [isolated(ada.name), isolated(bo.name)];
  const copy: World = {
    users: [
      { ...seller, id: "u1", funds: 0 },
      { ...ada, id: "u2", funds: price * 2 },
      { ...bo, id: "u3", funds: price * 2 },
    ],
    items: [{ ...thing, id: "i1", owner: "u1", price }],
  };
  const startedAt = performance.now();
  const steps: PauseStep[] = [];
  const step = (text: string): void => void steps.push({ atMs: performance.now() - startedAt, text });

  const keys = classicKeys(classicPrefix);
  const ours = new Market(redis, lock, market, lifeMs, place.prefix);
  if (way === "lock") await openMarket(redis, ours.keys, copy, lifeMs);
  else {
    for (const { id, name, funds } of copy.users) await redis.hset(keys.user(id), { name, funds });
    await redis.zadd(keys.market, price, keys.marketMember("i1", "u1"));
  }

  const child = fork(new URL("./holder.js", import.meta.url), { stdio: ["ignore", "ignore", "inherit", "ipc"] });
  const disown = ownChild(child);
  try {
    const task: HolderTask = {
      ...place,
      ...{ way, market, lifeMs, item: "i1", seller: "u1", buyer: "u2", name: ada.name, price, leaseMs, classicPrefix },
    };
    child.send(task);
    const held = await next(child);
    const token = held.what === "about to write" ? held.fencingToken : null;
    step(
      `${first} holds the lock${token === null ? "" : `, fencing token ${token}`}, has read price and purse, and is about to write.`,
    );
    child.kill("SIGSTOP");
    step(`SIGSTOP: process ${child.pid ?? 0} stands still. Its lock runs out after ${leaseMs / 1_000} s.`);

    let secondOutcome: string;
    if (way === "lock") {
      const outcome = await ours.buy(
        "lock",
        { item: "i1", buyer: "u3", price, revision: 1, request: "second" },
        bo.name,
      );
      secondOutcome = outcome.kind;
    } else {
      await using plain = await connect(place.url);
      const { outcome } = await purchaseItemWithOwnerlessLock(plain as unknown as Redis, "u3", "i1", "u1", price, {
        prefix: classicPrefix,
        lockTimeoutSeconds: ownerlessSeconds,
      });
      secondOutcome = outcome === "bought" ? "sold" : outcome;
    }
    step(`${second} waited in line, has the lock now, and buys: ${wordsOf(secondOutcome)}.`);

    child.kill("SIGCONT");
    step(`SIGCONT: ${first} goes on, knows nothing of the pause, and writes.`);
    const over = next(child);
    child.send({ goOn: true });
    const said = await over;
    const firstOutcome = said.what === "over" ? said.outcome : "not-answered";
    const newest = said.what === "over" ? said.newestToken : null;
    step(
      firstOutcome === "stale-fence"
        ? `Refused: the item has seen token ${newest ?? ""}, and ${token ?? ""} is older. Nothing was written.`
        : `${first} is told: ${wordsOf(firstOutcome)}.`,
    );

    const recount = await runChild<Recount>(
      "recount",
      {
        ...place,
        market,
        users: copy.users.map(({ id }) => id),
        items: ["i1"],
        openingMoney: price * 4,
        seller: "u1",
        ...(way === "setnx" ? { classicPrefix } : {}),
      },
      limitMs,
    );
    step(`A third process counts again: ${owners(recount)}, and the seller was paid ${paid(recount)}.`);
    const told = [firstOutcome, secondOutcome].filter((outcome) => outcome === "sold").length;
    return { way, title, first: ada.name, second: bo.name, steps, firstOutcome, secondOutcome, told, recount };
  } finally {
    child.kill("SIGKILL");
    disown();
    if (way === "setnx")
      for (const key of [...copy.users.flatMap(({ id }) => [keys.user(id), keys.inventory(id)]), keys.market])
        await redis.pexpire(key, lifeMs).catch(() => 0);
  }
};

const owners = ({ owned }: Recount): string => (owned === 2 ? "both own the one thing" : `${owned} of the two owns it`);
const paid = ({ owned }: Recount): string => (owned === 1 ? "once" : owned === 2 ? "twice" : `${owned} times`);

const words: Readonly<Record<string, string>> = {
  sold: "it is yours",
  "stale-fence": "refused, a newer fencing token was here",
  notForSale: "not for sale any more",
  "not-for-sale": "not for sale any more",
};

const wordsOf = (outcome: string): string => words[outcome] ?? outcome;
