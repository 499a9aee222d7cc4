// The scripted visitors of `--smoke`, in a process of their own. They use the shop only by HTTP, and read its pages as
// a browser without JavaScript does.
import { serveChild } from "./common/child.js";
import { ask, field, type Reply } from "./common/http-client.js";
import type { RaceResult, RaceWay } from "./race/race.js";

export interface VisitorsTask {
  readonly origin: string;
  readonly races: readonly RaceWay[];
}

export interface VisitorsReport {
  /** Milliseconds of each request, by action. */
  readonly latencies: Readonly<Record<string, readonly number[]>>;
  /** How often buyers and sellers got each outcome, by way. */
  readonly outcomes: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly races: readonly RaceResult[];
  readonly invariantsBefore: unknown;
  readonly invariantsAfter: unknown;
  /** Requests with an unexpected answer. */
  readonly complaints: readonly string[];
  readonly cspReports: number;
}

const shoppers = 6;
const purchasesEach = 6;

class Visitors {
  readonly #origin: string;
  readonly latencies: Record<string, number[]> = {};
  readonly outcomes: Record<string, Record<string, number>> = {};
  readonly complaints: string[] = [];

  constructor(origin: string) {
    this.#origin = origin;
  }

  async get(action: string, path: string, cookie?: string, accept?: string): Promise<Reply> {
    const reply = await ask(this.#origin, path, { cookie, ...(accept ? { accept } : {}), timeoutMs: 30_000 });
    return this.#note(action, path, reply, [200]);
  }

  async post(
    action: string,
    path: string,
    cookie: string,
    form: Record<string, string>,
    accept?: string,
  ): Promise<Reply> {
    const reply = await ask(this.#origin, path, { cookie, form, ...(accept ? { accept } : {}), timeoutMs: 60_000 });
    return this.#note(action, path, reply, [200, 303, 409]);
  }

  count(way: string, outcome: string): void {
    const counts = (this.outcomes[way] ??= {});
    counts[outcome] = (counts[outcome] ?? 0) + 1;
  }

  #note(action: string, path: string, reply: Reply, expected: readonly number[]): Reply {
    (this.latencies[action] ??= []).push(reply.ms);
    if (!expected.includes(reply.status)) this.complaints.push(`${action} ${path} answered ${reply.status}`);
    return reply;
  }
}

interface Person {
  readonly cookie: string;
  readonly name: string;
}

const signIn = async (visitors: Visitors, user: string): Promise<Person> => {
  const page = await visitors.get("personas", "/personas");
  const form = { csrf: field(page.body, "csrf"), user };
  const entered = await visitors.post("login", "/login", page.cookie ?? "", form);
  if (!entered.cookie) throw new Error(`the login of ${user} set no cookie`);
  return { cookie: entered.cookie, name: user };
};

const idsOn = (page: string): string[] => [...page.matchAll(/href="\/item\/([\w.-]+)"/g)].map(([, id]) => id ?? "");
const outcomeOf = ({ body }: Reply): string => (JSON.parse(body) as { outcome: { kind: string } }).outcome.kind;

const json = "application/json";

/** Opens items, buys by both ways in turn, and offers each bought item again. */
const shop = async (visitors: Visitors, user: string, turn: number): Promise<void> => {
  const { cookie } = await signIn(visitors, user);
  const market = await visitors.get("market", `/?page=${turn + 1}`, cookie);
  const ids = idsOn(market.body);
  for (let n = 0; n < purchasesEach; n++) {
    const way = n % 2 === 0 ? "lock" : "optimistic";
    const path = `/item/${ids[n * 3] ?? ids[0] ?? ""}`;
    const page = await visitors.get("item", path, cookie);
    if (!page.body.includes(`action="${path}/buy"`)) continue;
    const [csrf, request, price, revision] = ["csrf", "request", "price", "revision"].map((name) =>
      field(page.body, name),
    );
    const form = { csrf: csrf ?? "", request: request ?? "", price: price ?? "", revision: revision ?? "", way };
    const bought = await visitors.post(`buy by ${way}`, `${path}/buy`, cookie, form, json);
    visitors.count(way, outcomeOf(bought));
    if (outcomeOf(bought) !== "sold") continue;

    const mine = await visitors.get("item", path, cookie);
    const offer = {
      csrf: field(mine.body, "csrf"),
      request: field(mine.body, "request"),
      revision: field(mine.body, "revision"),
      pounds: `${n + 12}.50`,
      way,
    };
    const listed = await visitors.post(`list by ${way}`, `${path}/list`, cookie, offer, json);
    visitors.count(`list by ${way}`, outcomeOf(listed));
  }
  await visitors.get("me", "/me", cookie);
};

const race = async (visitors: Visitors, { cookie }: Person, way: RaceWay): Promise<RaceResult> => {
  const page = await visitors.get("race page", `/race?way=${way}`, cookie);
  const started = await visitors.post(`race ${way}`, "/race", cookie, { csrf: field(page.body, "csrf"), way });
  const path = started.location ?? "/race/none";
  await visitors.get("race result", path, cookie);
  return JSON.parse((await visitors.get("race result", path, cookie, json)).body) as RaceResult;
};

serveChild(async ({ origin, races: ways }: VisitorsTask): Promise<VisitorsReport> => {
  const visitors = new Visitors(origin);
  const invariants = async (): Promise<unknown> => JSON.parse((await visitors.get("invariants", "/invariants")).body);
  const invariantsBefore = await invariants();
  // Users from u61 on are buyers, rich and poor.
  await Promise.all(Array.from({ length: shoppers }, (_, turn) => shop(visitors, `u${61 + turn * 7}`, turn)));
  const person = await signIn(visitors, "u61");
  const races: RaceResult[] = [];
  for (const way of ways) races.push(await race(visitors, person, way));
  await visitors.get("pipeline page", "/pipeline", person.cookie);
  const { count } = JSON.parse((await visitors.get("reports", "/csp-report")).body) as { count: number };
  return {
    latencies: visitors.latencies,
    outcomes: visitors.outcomes,
    races,
    invariantsBefore,
    invariantsAfter: await invariants(),
    complaints: visitors.complaints,
    cspReports: count,
  };
});
