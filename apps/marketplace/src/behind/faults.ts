// The faults of the drawer. Each is real and ends by itself. It reports whether the promise that it tests was kept.
import { setTimeout as sleep } from "node:timers/promises";
import { durable } from "@kit/core/durable";
import type { Crew } from "./crew.js";
import type { PartnersFacts } from "./partners.js";
import type { WireCall } from "./wire.js";
import type { WorkerStatus } from "./worker.js";
import { newId } from "../market/sessions.js";
import type { Shop } from "./shop.js";
import { playPause } from "../race/pause.js";

const faultNames = ["worker", "holder", "cut", "slow", "flush", "sellers", "flood", "poison", "failover"] as const;
export type FaultName = (typeof faultNames)[number];

export const isFault = (text: unknown): text is FaultName => faultNames.some((name) => name === text);

export interface FaultView {
  readonly name: FaultName;
  readonly title: string;
  readonly promise: string;
  readonly isRunning: boolean;
  /** Seconds until the fault has healed at the latest; 0 unless it is running. */
  readonly secondsLeft: number;
  /** The result of the last run; null before the first. */
  readonly outcome: { readonly isGood: boolean; readonly text: string; readonly at: number } | null;
}

/** Makes the servers behind the shop fail over. */
export interface Failover {
  /** Kills the master and waits for another; resolves with a sentence about the outcome. */
  run(): Promise<string>;
}

interface Deps {
  readonly shop: Shop;
  readonly crew: Crew;
  /** The name of the process that forwards to Redis; null if there is none. */
  readonly wire: string | null;
  readonly failover: Failover | null;
  readonly partners: PartnersFacts;
  readonly isEnabled: boolean;
}

interface Fault {
  readonly title: string;
  readonly promise: string;
  readonly healsMs: number;
  readonly run: () => Promise<{ isGood: boolean; text: string }>;
}

const aimMs = 1_200;
const cutMs = 5_000;
const slowMs = 12_000;
const extraLatencyMs = 300;
const stocktakeMs = 3_000;
const waitMs = 60_000;
const confirmMs = 10_000;
const floodMessages = 2_000;
const floodAtOnce = 100;

const until = async <T>(look: () => Promise<T | null>, limitMs: number = waitMs): Promise<T | null> => {
  const end = performance.now() + limitMs;
  while (performance.now() < end) {
    const found = await look().catch(() => null);
    if (found !== null) return found;
    await sleep(100);
  }
  return null;
};

export class Faults {
  readonly #deps: Deps;
  readonly #faults: ReadonlyMap<FaultName, Fault>;
  readonly #running = new Map<FaultName, number>();
  readonly #outcomes = new Map<FaultName, NonNullable<FaultView["outcome"]>>();

  constructor(deps: Deps) {
    this.#deps = deps;
    const all: [FaultName, Fault][] = [
      ["worker", this.#worker()],
      ["holder", this.#holder()],
      ["flush", this.#flush()],
      ["sellers", this.#sellers()],
      ["flood", this.#flood()],
      ["poison", this.#poison()],
    ];
    if (deps.wire !== null) all.splice(2, 0, ["cut", this.#cut(deps.wire)], ["slow", this.#slow(deps.wire)]);
    if (deps.failover !== null) all.push(["failover", this.#failover(deps.failover)]);
    this.#faults = new Map(deps.isEnabled ? all : []);
  }

  list(): FaultView[] {
    const now = performance.now();
    return [...this.#faults].map(([name, { title, promise }]) => {
      const endsAt = this.#running.get(name);
      return {
        ...{ name, title, promise, isRunning: endsAt !== undefined },
        secondsLeft: endsAt === undefined ? 0 : Math.max(0, Math.ceil((endsAt - now) / 1_000)),
        outcome: this.#outcomes.get(name) ?? null,
      };
    });
  }

  /** Begins a fault; false if it is already under way, or not available here. */
  begin(name: FaultName): boolean {
    const fault = this.#faults.get(name);
    if (!fault || this.#running.has(name)) return false;
    this.#running.set(name, performance.now() + fault.healsMs);
    this.#deps.crew.note(`fault: ${fault.title}`);
    this.#deps.shop.recentLog.write(`fault: ${fault.title}`);
    void fault
      .run()
      .catch((error: unknown) => ({ isGood: false, text: error instanceof Error ? error.message : String(error) }))
      .then((outcome) => {
        this.#outcomes.set(name, { ...outcome, at: Date.now() });
        this.#running.delete(name);
      });
    return true;
  }

  #worker(): Fault {
    return {
      title: "Kill a worker",
      promise: "If a worker dies during a job, another worker finishes the job, and its effect happens once.",
      healsMs: 15_000,
      run: async () => {
        const { shop, crew, partners } = this.#deps;
        const { redis, queue, market } = shop;
        const job = await queue.add("stocktake", { ms: stocktakeMs }, { priority: -1 });
        const hit = await until(() =>
          Promise.resolve(
            crew.members("worker").find(({ state, status }) => {
              const running = (status as WorkerStatus | undefined)?.running.find(({ id }) => id === job);
              return state === "running" && (running?.progress ?? 0) >= 0.2;
            }) ?? null,
          ),
        );
        if (!hit) return { isGood: false, text: "No worker took the job." };
        const pid = crew.kill(hit.name, 6_000);
        const startedAt = performance.now();
        const result = await until(async () => {
          const text = await redis.get(market.keys.result);
          const found = text === null ? null : (JSON.parse(text) as { job: string; worker: string; crashes: number });
          return found?.job === job ? found : null;
        });
        if (!result) return { isGood: false, text: `${hit.name} was killed, and no worker finished its job.` };
        const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
        const reply = await fetch(`${partners.origin}/charged?of=${encodeURIComponent(`stocktake ${job}`)}`);
        const { tries, made } = (await reply.json()) as { tries: number; made: number };
        return {
          isGood: result.crashes === 1 && made === 1,
          text: `${hit.name} (pid ${pid}) was killed during a stocktake that was already paid for. ${result.worker} finished it ${seconds} s later, after ${result.crashes} crash. The payment was requested ${tries} times with the same id, and made ${made === 1 ? "once" : `${made} times`}.`,
        };
      },
    };
  }

  #holder(): Fault {
    return {
      title: "Pause a lock holder",
      promise: "A buyer whose lease has expired cannot write: the fencing token rejects it.",
      healsMs: 8_000,
      run: async () => {
        const { shop } = this.#deps;
        const result = await playPause(shop, "lock");
        return {
          isGood: result.firstOutcome === "stale-fence" && result.recount.owned === 1,
          text: result.steps.map(({ text }) => text).join(" "),
        };
      },
    };
  }

  #cut(wire: string): Fault {
    return {
      title: "Cut Redis off for 5 seconds",
      promise: "Pages show a clear message, no data is lost, and everything continues when the connection is back.",
      healsMs: aimMs + cutMs + 6_000,
      run: async () => {
        const { crew, shop } = this.#deps;
        const before = await shop.auditor.fresh();
        // The page that follows the button must still be loaded.
        await sleep(aimMs);
        await crew.call(wire, { latencyMs: 0, isCut: true } satisfies WireCall);
        await sleep(cutMs);
        await crew.call(wire, { latencyMs: 0, isCut: false } satisfies WireCall);
        const startedAt = performance.now();
        const after = await until(() => shop.auditor.fresh());
        if (!after) return { isGood: false, text: "Redis did not reply after the connection was restored." };
        const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
        const isGood = after.money === before.openingMoney && after.items === before.items && after.itemsTwice === 0;
        return {
          isGood,
          text: `Every process lost Redis for 5 s. The first reply came ${seconds} s after the connection was restored. Money and items are unchanged.`,
        };
      },
    };
  }

  #slow(wire: string): Fault {
    return {
      title: "Slow the network by 300 ms",
      promise: "Everything takes longer, but nothing fails.",
      healsMs: slowMs + 1_000,
      run: async () => {
        const { crew, shop } = this.#deps;
        await crew.call(wire, { latencyMs: extraLatencyMs, isCut: false } satisfies WireCall);
        try {
          const startedAt = performance.now();
          const ping = shop.redis.ping().then(() => performance.now() - startedAt);
          const [pingMs] = await Promise.all([ping, sleep(slowMs)]);
          return {
            isGood: true,
            text: `For twelve seconds, a PING took ${pingMs.toFixed(0)} ms. A sale needs only a few round trips.`,
          };
        } finally {
          await crew.call(wire, { latencyMs: 0, isCut: false } satisfies WireCall);
        }
      },
    };
  }

  #flush(): Fault {
    return {
      title: "Flush all scripts",
      promise: "SCRIPT FLUSH has no visible effect: the client resends a script that the server no longer has.",
      healsMs: 3_000,
      run: async () => {
        const { redis, auditor } = this.#deps.shop;
        await redis.script("FLUSH");
        const startedAt = performance.now();
        await auditor.fresh();
        const ms = (performance.now() - startedAt).toFixed(1);
        return {
          isGood: true,
          text: `The server lost every script. The next script call still took only ${ms} ms.`,
        };
      },
    };
  }

  #sellers(): Fault {
    return {
      title: "Kill the sellers' process",
      promise: "Messages wait for an absent reader. When the reader is back, it answers them in order.",
      healsMs: 16_000,
      run: async () => {
        const { crew, shop } = this.#deps;
        // The seller is no persona: the program does not answer for a seller that a person plays.
        const [seller, buyer] = ["u9", "u860"];
        const chat = `pair:fault-${newId()}`;
        await shop.chat.create(chat, { members: [buyer, seller], retain: { count: 100, ageMs: 3_600_000 } });
        crew.kill("sellers", 4_000);
        const questions = ["Does it still work?", "Thank you!", "When does it ship?"];
        for (const body of questions) await shop.chat.send(chat, { from: buyer, body });
        const answers = await until(async () => {
          const { messages } = await shop.chat.history(chat, { limit: 20 });
          const given = messages.filter(({ from }) => from === seller);
          return given.length >= questions.length ? given : null;
        });
        await shop.chat.delete(chat).catch(() => undefined);
        if (!answers) return { isGood: false, text: "The questions were not answered." };
        const inOrder = [/As described/, /welcome/, /goes out today/];
        const orderly = answers.every(({ body }, at) => inOrder[at]?.test(body) === true);
        return {
          isGood: orderly && answers.length === questions.length,
          text: `Three questions waited while the sellers were down. Each was answered once: “${answers.map(({ body }) => body).join("” “")}”`,
        };
      },
    };
  }

  #flood(): Fault {
    return {
      title: "Let a seller flood a chat",
      promise: "Other chats are not affected, and the flooded chat stays within its limit.",
      healsMs: 10_000,
      run: async () => {
        const { chat } = this.#deps.shop;
        const [loud, quiet] = [`pair:fault-${newId()}`, `pair:fault-${newId()}`];
        const kept = 200;
        for (const name of [loud, quiet])
          await chat.create(name, { members: ["u850", "u851"], retain: { count: kept, ageMs: 3_600_000 } });
        // A hundred messages in flight; each reply starts the next.
        const one = async (at: number): Promise<void> => {
          for (let n = at; n < floodMessages; n += floodAtOnce)
            await chat.send(loud, { from: "u850", body: `Buy now! ${n + 1}` });
        };
        const flood = Promise.all(Array.from({ length: floodAtOnce }, (_, at) => one(at)));
        const startedAt = performance.now();
        const heard = chat
          .send(quiet, { from: "u851", body: "Are you there?" })
          .then(() => performance.now() - startedAt);
        // Awaited together: when Redis is cut off, either can reject first.
        const [ms] = await Promise.all([heard, flood]);
        const { messages } = await chat.inspect(loud);
        await Promise.all([chat.delete(loud), chat.delete(quiet)]);
        return {
          isGood: messages < floodMessages,
          text: `While one chat received ${floodMessages.toLocaleString("en-GB")} messages, a message in another chat took ${ms.toFixed(0)} ms. The flooded chat kept about ${kept}.`,
        };
      },
    };
  }

  #poison(): Fault {
    return {
      title: "Add a poison job",
      promise: "A job that always fails gets five attempts. Then it becomes a dead letter for an operator.",
      healsMs: 15_000,
      run: async () => {
        const { queue } = this.#deps.shop;
        const id = await queue.add("print", { sheet: newId() });
        const letter = await until(
          async () => (await queue.deadLetters({ count: 100 })).find((one) => one.id === id) ?? null,
        );
        if (!letter) return { isGood: false, text: "The job did not become a dead letter." };
        return {
          isGood: letter.attempts === 5,
          text: `It failed ${letter.attempts} times: “${letter.error?.message ?? ""}”. It is now on the ops page. The printer is repaired: press Retry there.`,
        };
      },
    };
  }

  #failover(failover: Failover): Fault {
    return {
      title: "Kill the Redis master",
      promise: "A replica takes over, and no confirmed sale is lost.",
      healsMs: 30_000,
      run: async () => {
        const { redis, auditor, market } = this.#deps.shop;
        const { ledger, totals } = market.keys;
        const before = Number(await redis.hget(totals, "sales"));
        // `durable` waits after a read as after a write. A replica then has the newest sale and all before it.
        const { value, outcome } = await durable(redis, { key: ledger, replicas: 1, timeoutMs: confirmMs }, (scope) =>
          scope.call("XREVRANGE", ledger, "+", "-", "COUNT", 1),
        );
        if (outcome !== "safe")
          return { isGood: false, text: "No replica was ready in time, so the master was not killed." };
        const [newest] = (value as [string][]).map(([id]) => id);
        const startedAt = performance.now();
        const what = await failover.run();
        const after = await until(() => auditor.fresh(), 40_000);
        const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
        if (!after) return { isGood: false, text: `${what} Redis did not reply again.` };
        // Counting is not enough: newer sales would hide a lost one.
        const kept = newest === undefined ? [newest] : await until(() => redis.xrange(ledger, newest, newest));
        if (kept?.length !== 1) return { isGood: false, text: `${what} Confirmed sales are missing.` };
        const isGood = after.money === after.openingMoney && after.items === after.openingItems;
        return {
          isGood,
          text: `${what} Redis replied again after ${seconds} s: ${before} sales before, ${after.sales} now, money and items ${isGood ? "complete" : "NOT complete"}.`,
        };
      },
    };
  }
}
