// The smoke run's checks, by package, so that a failure names the package.
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "@kit/core";
import type { AccessLog } from "./behind/access-log.js";
import type { Crew } from "./behind/crew.js";
import type { PartnersFacts, PartnersState } from "./behind/partners.js";
import { ask } from "./common/http-client.js";
import { tourWords } from "./pages/tour.js";
import { orderChat, paymentPermits } from "./common/tools.js";
import { addressOf } from "./seed/countries.js";
import type { Shop } from "./behind/shop.js";

export interface PackageCheck {
  readonly package: string;
  readonly ok: boolean;
  readonly ms: number;
  /** The observation, or the failed expectation. */
  readonly what: string;
}

interface Deps {
  readonly shop: Shop;
  readonly crew: Crew;
  readonly partners: PartnersFacts;
  readonly origin: string;
  readonly accessLog: AccessLog;
}

const limitMs = 30_000;

const until = async <T>(look: () => Promise<T | null | false>, what: string): Promise<T> => {
  const end = performance.now() + limitMs;
  for (;;) {
    const found = await look();
    if (found !== null && found !== false) return found;
    if (performance.now() > end) throw new Error(`check failed: ${what}`);
    await sleep(50);
  }
};

const must = (isSo: boolean, what: string): void => {
  if (!isSo) throw new Error(`check failed: ${what}`);
};

const checks: Readonly<Record<string, (deps: Deps) => Promise<string>>> = {
  core: async ({ shop }) => {
    await shop.flags.set("maintenance", true, { reason: "smoke" });
    await until(() => Promise.resolve(shop.flags.isOn("maintenance")), "a flag that was set is on");
    await shop.flags.set("maintenance", false);
    shop.recentLog.write("smoke");
    await until(
      async () => (await shop.recentLog.read(20)).some((line) => line.endsWith(" smoke")),
      "the diary is written",
    );
    return "flag on and off, diary written through the component";
  },
  lock: async ({ shop }) => {
    const name = "smoke";
    const lease = await shop.lock.acquire(name);
    must((await shop.lock.tryAcquire(name)) === null, "a held lock is not granted again");
    await lease.release();
    const next = await shop.lock.acquire(name);
    must(BigInt(next.fencingToken) > BigInt(lease.fencingToken), "tokens increase");
    await next.release();
    return "exclusive, tokens increase";
  },
  queue: async ({ shop }) => {
    const orders = await shop.orders.newest(100);
    must(orders.length > 0, "sales have orders");
    await until(
      async () =>
        (await Promise.all(orders.map(({ id }) => shop.orders.order(id)))).every((order) =>
          (["charge", "label", "receipt"] as const).every((job) => order?.done[job] !== undefined),
        ),
      "charge, label and receipt of every order are done",
    );
    return `${orders.length} orders, all of their jobs done`;
  },
  semaphore: async ({ shop, partners }) => {
    const reply = await fetch(`${partners.origin}/state`);
    const { peak, refused, charges } = (await reply.json()) as PartnersState;
    must(peak <= paymentPermits && refused === 0 && charges > 0, "the provider never had a sixth concurrent payment");
    must((await shop.payments.inspect()).permits === paymentPermits, "five permits");
    return `${charges} payments, up to ${peak} concurrent, ${refused} rejected`;
  },
  limiter: async ({ shop }) => {
    const [session, address] = [await shop.sessions.open("smoke"), "198.51.100.1"];
    const waits = await Promise.all(Array.from({ length: 120 }, () => shop.accounts.forms.use(session, address)));
    await shop.sessions.close(session);
    const admitted = waits.filter((ms) => ms === 0).length;
    must(admitted === 100, "a session sends a hundred forms in ten seconds");
    return `${admitted} of ${waits.length} forms admitted`;
  },
  chat: async ({ shop }) => {
    const [order] = await shop.orders.newest(1);
    if (!order) throw new Error("check failed: there is an order");
    const name = orderChat(order.id);
    await shop.chat.send(name, { from: order.buyer, body: "Does it still work?", clientId: "smoke" });
    const again = await shop.chat.send(name, { from: order.buyer, body: "Does it still work?", clientId: "smoke" });
    must(again.duplicate, "a message sent twice is stored once");
    const answer = await until(async () => {
      const { messages } = await shop.chat.history(name, { limit: 20 });
      return messages.find(({ from }) => from === order.seller) ?? null;
    }, "the seller answers");
    return `the seller answered: ${answer.body}`;
  },
  autocomplete: async ({ shop, origin }) => {
    const [seller] = shop.world.users.filter(({ isSeller }) => isSeller);
    const { hits } = await shop.search.find((seller?.name ?? "").split(" ")[0] ?? "", 8);
    must(
      hits.some(({ id }) => id === seller?.id),
      "a seller is found by first name",
    );
    await shop.search.wrote("u61", "u62");
    const people = await shop.search.addressees("u61", shop.world.users[61]?.name ?? "", 5);
    must(
      people.some(({ id, why }) => id === "u62" && why === "contact"),
      "a contact is found",
    );
    const times: number[] = [];
    // The words of the tour, key by key. An answer alone is no success: it may be empty.
    for (const words of tourWords)
      for (let length = 1; length <= words.length; length++) {
        const typed = words.slice(0, length);
        const startedAt = performance.now();
        const { status, body } = await ask(origin, `/suggest?q=${encodeURIComponent(typed)}`);
        times.push(performance.now() - startedAt);
        must(status === 200 && (JSON.parse(body) as unknown[]).length > 0, `“${typed}” of the tour finds something`);
      }
    times.sort((a, b) => a - b);
    const [median = 0, slowest = 0] = [times[Math.floor(times.length / 2)], times.at(-1)];
    return `a contact; a keystroke takes ${median.toFixed(1)} ms, up to ${slowest.toFixed(1)} ms`;
  },
  geoip: async ({ shop }) => {
    const found = await shop.geo.lookup(addressOf("somebody"));
    must(found.place?.country !== undefined, "a synthetic address has a country");
    must((await shop.geo.lookup("8.8.8.8")).place === null, "a real one has none");
    return `${found.place?.country ?? ""}`;
  },
  logship: async ({ shop, accessLog, origin }) => {
    await ask(origin, "/health");
    await accessLog.turn();
    const before = await shop.countries.results("lines");
    const lines = await until(async () => {
      const all = Number((await shop.countries.results("lines")).get("countries") ?? 0);
      return all > Number(before.get("countries") ?? 0) || all > 10_000 ? all : null;
    }, "access log lines are counted");
    const counted = [...(await shop.countries.results("country")).values()].reduce(
      (sum, value) => sum + Number(value),
      0,
    );
    must(counted > 0, "visits are counted by country");
    return `${lines} lines`;
  },
  stats: async ({ shop, origin }) => {
    await shop.stats.stats.flush();
    const hour = { lastMs: 3_600_000 };
    const { count } = await shop.stats.requests.summary({ route: "/item/:id" }, hour);
    must(count > 0, "requests are measured");
    const { body } = await ask(origin, "/metrics");
    must(/^shop_sales_total \d+$/m.test(body), "sales are exposed to Prometheus");
    return `${count} requests to items`;
  },
  testing: async ({ shop, crew }) => {
    if (!crew.members("wire")[0]) return "no wire in this mode";
    await crew.call("wire", { latencyMs: 40, isCut: false });
    await using slow = await connect(shop.place.url);
    const startedAt = performance.now();
    await slow.ping();
    const ms = performance.now() - startedAt;
    await crew.call("wire", { latencyMs: 0, isCut: false });
    must(ms >= 35, "the wire can be made slow");
    return `a slow wire: ${ms.toFixed(0)} ms`;
  },
};

export const checkPackages = async (deps: Deps): Promise<PackageCheck[]> => {
  const results: PackageCheck[] = [];
  for (const [name, check] of Object.entries(checks)) {
    const startedAt = performance.now();
    const [ok, what] = await check(deps).then(
      (text): [boolean, string] => [true, text],
      (error: unknown): [boolean, string] => [false, error instanceof Error ? error.message : String(error)],
    );
    results.push({ package: name, ok, what, ms: Math.round(performance.now() - startedAt) });
  }
  return results;
};
