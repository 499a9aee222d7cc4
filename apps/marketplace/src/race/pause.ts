// A buyer is stopped in the middle of its purchase for longer than its lease. Another one buys. Then the first
// continues.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { ownChild } from "../common/child.js";
import type { HolderSays, HolderTask } from "./holder.js";
import type { Recount } from "./recount.js";
import { type Backstage, castOf, lifeMs, openStage } from "./stage.js";

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

const leaseMs = 2_000;
const limitMs = 30_000;

/** Isolates text from right to left, so that it does not change the direction of the sentence. */
const isolated = (name: string): string => `\u2068${name}\u2069`;

const next = async (child: ChildProcess): Promise<HolderSays> => {
  const [message] = (await once(child, "message", { signal: AbortSignal.timeout(limitMs) })) as [HolderSays];
  return message;
};

/** Runs the scene once, on a stage of its own. */
export const playPause = async (shop: Backstage, way: PauseWay): Promise<PauseResult> => {
  const world = castOf(shop.world, { buyers: 2, things: 1, funds: (price) => price * 2 });
  const [, ada, bo] = world.users;
  const [thing] = world.items;
  if (!thing?.price || !ada || !bo) throw new Error("the race needs two people and an item");
  const { price, title } = thing;
  const [first, second] = [isolated(ada.name), isolated(bo.name)];
  const startedAt = performance.now();
  const steps: PauseStep[] = [];
  const step = (text: string): void => void steps.push({ atMs: performance.now() - startedAt, text });

  const stage = await openStage(shop, way, world, leaseMs / 1_000);
  const child = fork(new URL("./holder.js", import.meta.url), { stdio: ["ignore", "ignore", "inherit", "ipc"] });
  const disown = ownChild(child);
  try {
    const task: HolderTask = {
      ...{ ...shop.place, way, market: stage.id, classicPrefix: stage.classicPrefix, lifeMs, leaseMs },
      ...{ item: thing.id, seller: thing.owner, buyer: ada.id, name: ada.name, price },
    };
    child.send(task);
    const held = await next(child);
    const token = held.what === "about to write" ? held.fencingToken : null;
    step(
      `${first} holds the lock${token === null ? "" : `, fencing token ${token}`}, has read the price and the balance, and is about to write.`,
    );
    child.kill("SIGSTOP");
    step(`SIGSTOP pauses process ${child.pid ?? 0}. Its lock expires after ${leaseMs / 1_000} s.`);

    const { kind: secondOutcome } = await stage.buy(
      { item: thing.id, buyer: bo.id, price, revision: 1, request: "second" },
      bo.name,
    );
    step(`${second} waited, now has the lock, and buys. The reply: ${wordsOf(secondOutcome)}.`);

    child.kill("SIGCONT");
    step(`SIGCONT: ${first} continues, unaware of the pause, and writes.`);
    const over = next(child);
    child.send({ goOn: true });
    const said = await over;
    const firstOutcome = said.what === "over" ? said.outcome : "not-answered";
    const newest = said.what === "over" ? said.newestToken : null;
    step(
      firstOutcome === "stale-fence"
        ? `Rejected: the item has seen token ${newest ?? ""}, and ${token ?? ""} is older. Nothing was written.`
        : `The reply to ${first}: ${wordsOf(firstOutcome)}.`,
    );

    const recount = await stage.recount();
    step(`A third process counts: ${owners(recount)}, and the seller was paid ${paid(recount)}.`);
    const told = [firstOutcome, secondOutcome].filter((outcome) => outcome === "sold").length;
    return { way, title, first: ada.name, second: bo.name, steps, firstOutcome, secondOutcome, told, recount };
  } finally {
    child.kill("SIGKILL");
    disown();
    await stage.close();
  }
};

const owners = ({ owned }: Recount): string =>
  owned === 2 ? "both own the item" : `${owned} of the two owns the item`;
const paid = ({ owned }: Recount): string => (owned === 1 ? "once" : owned === 2 ? "twice" : `${owned} times`);

const words: Readonly<Record<string, string>> = {
  sold: "you bought it",
  "stale-fence": "rejected, because of a newer fencing token",
  "not-for-sale": "no longer for sale",
};

const wordsOf = (outcome: string): string => words[outcome] ?? outcome;
