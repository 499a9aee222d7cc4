// Plays visitors over real HTTP: they browse, search, buy, resell and write to sellers.
import { setTimeout as sleep } from "node:timers/promises";
import { ask, field } from "../common/http-client.js";
import { addressOf } from "../seed/countries.js";
import { random } from "../seed/random.js";
import { serveMember } from "./member.js";

export interface TrafficTask {
  readonly origin: string;
  /** A secret in each request. With it the web server trusts the address in the header. */
  readonly pass: string;
  readonly users: readonly string[];
}

export interface TrafficStatus {
  readonly requests: number;
  readonly bought: number;
}

const atOnce = 3;
const pauseMs = 800;
const words = "brass,lamp,oak,silk,tin,fern,clock,atlas,folding,walnut,blue,ink,quilt,harbour".split(",");
const questions = [
  "Is it still sealed?",
  "When does it ship?",
  "Is the price for the pair?",
  "Thank you, lovely piece.",
  "Does it still work?",
];

serveMember(async ({ origin, pass, users }: TrafficTask, report) => {
  const end = new AbortController();
  const chance = random(Date.now());
  let [requests, bought] = [0, 0];

  const visit = async (user: string): Promise<void> => {
    const headers = { "x-bazaar-visitor": `${pass} ${addressOf(user)}` };
    let cookie: string | undefined;
    const go = async (path: string, form?: Record<string, string>, accept = "text/html"): ReturnType<typeof ask> => {
      const reply = await ask(origin, path, { cookie, form, accept, headers });
      if (reply.cookie !== undefined) cookie = reply.cookie;
      report({ requests: ++requests, bought } satisfies TrafficStatus);
      await sleep(pauseMs * (0.5 + chance.next()), undefined, { signal: end.signal });
      return reply;
    };
    const sell = async (path: string, pence: number): Promise<void> => {
      const page = await go(path);
      const offer = Object.fromEntries(["csrf", "request", "revision"].map((name) => [name, field(page.body, name)]));
      await go(`${path}/list`, { ...offer, pounds: (pence / 100).toFixed(2), way: "lock" });
    };
    const entrance = await go("/personas");
    if (entrance.status !== 200) return;
    await go("/login", { csrf: field(entrance.body, "csrf"), user });
    const market = await go(`/?page=${chance.between(1, 30)}`);
    const ids = [...market.body.matchAll(/href="\/item\/([\w.-]+)"/g)].map(([, id]) => id ?? "");
    if (chance.next() < 0.5)
      await go(`/search?q=${encodeURIComponent(words[chance.between(0, words.length - 1)] ?? "")}`);
    for (let look = 0; look < 3 && ids.length > 0; look++) {
      const path = `/item/${ids[chance.between(0, ids.length - 1)] ?? ""}`;
      const page = await go(path);
      if (chance.next() > 0.55 || !page.body.includes(`action="${path}/buy"`)) continue;
      const names = ["csrf", "request", "price", "revision"] as const;
      const form = Object.fromEntries(names.map((name) => [name, field(page.body, name)]));
      if (chance.next() < 0.15) {
        const pounds = ((Number(form["price"]) / 100) * (0.7 + chance.next() / 4)).toFixed(2);
        const { csrf = "", revision = "" } = form;
        await go(`${path}/offer`, { csrf, pounds, revision }, "application/json");
        continue;
      }
      const way = chance.next() < 0.7 ? "lock" : "optimistic";
      const answer = await go(`${path}/buy`, { ...form, way }, "application/json");
      const { outcome, order } = JSON.parse(answer.body) as { outcome?: { kind: string }; order?: string };
      if (outcome?.kind !== "sold") continue;
      bought++;
      if (order !== undefined && chance.next() < 0.4) {
        const shown = await go(`/order/${order}`);
        const text = questions[chance.between(0, questions.length - 1)] ?? "";
        await go(`/order/${order}/say`, { csrf: field(shown.body, "csrf"), id: field(shown.body, "id"), text });
      }
      // Offered again, so that the market does not run out of items.
      await sell(path, Number(form["price"]));
    }
    const last = await go("/me");
    // An offer may have been accepted since the last visit.
    const owned = /Your items, not for sale.*?href="(\/item\/[\w.-]+)".*?Recently viewed/s.exec(last.body)?.[1];
    if (owned !== undefined) await sell(owned, chance.between(1_000, 20_000));
    await go("/logout", { csrf: field(last.body, "csrf") });
  };

  const one = async (): Promise<void> => {
    while (!end.signal.aborted) {
      const user = users[chance.between(0, users.length - 1)] ?? "";
      await visit(user).catch(() => undefined);
      await sleep(pauseMs, undefined, { signal: end.signal }).catch(() => undefined);
    }
  };
  for (let visitor = 0; visitor < atOnce; visitor++) void one();
  return {
    stop: () => {
      end.abort();
      return Promise.resolve();
    },
  };
});
