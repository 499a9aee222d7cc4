// Several processes, both ways, the same items.
import { connect } from "@kit/core";
import { createLock } from "@kit/lock";
import { eventually, FaultProxy } from "@kit/testing";
import { describe, expect, it } from "vitest";
import { type Busy, Market } from "../src/market/market.js";
import type { BuyOutcome } from "../src/scripts/index.js";
import { random } from "../src/seed/random.js";
import { heard, person, startWorker, thing, useMarkets } from "./harness.js";
import type { TradeReport } from "./worker.js";

const fixture = useMarkets();
const processes = 4;

const total = (reports: readonly TradeReport[], what: string): number =>
  reports.reduce((sum, { outcomes }) => sum + (outcomes[what] ?? 0), 0);

interface Entry {
  readonly request: string;
  readonly item: string;
  readonly seller: string;
  readonly buyer: string;
  readonly price: number;
  readonly way: string;
}

const entryOf = (fields: readonly string[]): Entry => {
  const record = Object.fromEntries(
    Array.from({ length: fields.length / 2 }, (_, n) => [fields[2 * n], fields[2 * n + 1]]),
  );
  return { ...(record as unknown as Entry), price: Number(record["price"]) };
};

describe("Locked and optimistic traders in four processes", () => {
  it.each([
    ["one item", 1, 120, 10],
    ["twelve items", 12, 250, 100],
  ])("on %s: no money and no item is made or lost, and the ledger tells how", async (_, itemCount, writes, fewest) => {
    const users = Array.from({ length: 8 }, (_, n) => person(`u${n + 1}`, 900));
    const items = Array.from({ length: itemCount }, (_, n) => thing(`i${n + 1}`, `u${(n % 8) + 1}`, 100));
    const market = await fixture.open({ users, items });
    const ids = users.map(({ id }) => id);
    const task = {
      kind: "trade",
      url: fixture.server.url,
      market: market.id,
      writes,
      users: ids,
      items: items.map(({ id }) => id),
    } as const;
    const workers = Array.from({ length: processes }, (_, seed) => startWorker({ ...task, seed }));
    let looks = 0;
    let isTrading = true;
    const watching = (async () => {
      while (isTrading) {
        const audit = await market.audit(ids);
        expect(audit).toMatchObject({ money: 7_200, items: itemCount, itemsTwice: 0, inDebt: 0 });
        looks++;
      }
    })();
    const reports = await Promise.all(workers.map((worker) => heard<TradeReport>(worker)));
    isTrading = false;
    await watching;
    expect(looks).toBeGreaterThan(20);

    // The buyers' answers agree with the ledger, sale by sale.
    const ledger = (await fixture.redis.xrange(market.keys.ledger, "-", "+")).map(([, fields]) => entryOf(fields));
    const told = reports.flatMap(({ sales }) => sales);
    const line = (sale: { request: string; buyer: string; item: string; price: number }): string =>
      `${sale.request} ${sale.buyer} ${sale.item} ${sale.price}`;
    expect(ledger.map(line).sort()).toEqual(told.map(line).sort());
    // On one item the optimistic way, which waits for nobody, may win every sale.
    const ways = [...ledger.map(({ way }) => way), ...(itemCount === 1 ? ["lock"] : [])];
    expect(new Set(ways)).toEqual(new Set(["lock", "optimistic"]));
    for (const way of ["lock", "optimistic"]) expect(total(reports, `tried ${way}`)).toBeGreaterThan(0);
    expect(ledger.length).toBeGreaterThan(fewest);
    expect(total(reports, "again repeat")).toBeGreaterThan(0);

    // The ledger replays from the opening to what everybody has now.
    const funds = new Map(users.map((user) => [user.id, user.funds]));
    for (const { seller, buyer, price } of ledger) {
      funds.set(seller, (funds.get(seller) ?? 0) + price);
      funds.set(buyer, (funds.get(buyer) ?? 0) - price);
    }
    for (const id of ids) expect(await market.user(id)).toMatchObject({ funds: funds.get(id) });
    const owners = new Map(items.map(({ id, owner }) => [id, owner]));
    for (const { item, buyer, seller } of ledger) {
      expect(owners.get(item)).toBe(seller);
      owners.set(item, buyer);
    }
    expect(total(reports, "buy price-changed")).toBeGreaterThan(0);
  });
});

describe("A buyer stopped past its lease", () => {
  it("is refused by the token in the write, after the next buyer won", async () => {
    const market = await fixture.open({
      users: [person("s", 0), person("sleeper", 1_000), person("b", 1_000)],
      items: [thing("i1", "s", 500)],
    });
    const leaseMs = 400;
    const { url } = fixture.server;
    const sleeper = startWorker({
      kind: "late",
      url,
      market: market.id,
      item: "i1",
      buyer: "sleeper",
      leaseMs,
      price: 500,
    });
    const { token } = await heard<{ token: string }>(sleeper);
    sleeper.kill("SIGSTOP");

    // Waits for the lease of the sleeper to run out, no longer.
    const startedAt = performance.now();
    const won = await market.buy("lock", { item: "i1", buyer: "b", price: 500, revision: 1, request: "r" }, "b");
    expect(won).toMatchObject({ kind: "sold" });
    expect(performance.now() - startedAt).toBeLessThan(5_000);
    const newer = won.kind === "sold" ? won.fence : "";
    expect(BigInt(newer)).toBeGreaterThan(BigInt(token));

    sleeper.send("go");
    sleeper.kill("SIGCONT");
    expect(await heard(sleeper)).toEqual({ outcome: { kind: "stale-fence", fence: newer }, lost: "KIT_LOCK_LOST" });
    expect(await market.user("sleeper")).toMatchObject({ funds: 1_000 });
    expect(await market.audit(["s", "sleeper", "b"])).toMatchObject({
      money: 2_000,
      items: 1,
      itemsTwice: 0,
      sales: 1,
    });
  });
});

describe("A shop whose replies get lost", () => {
  it.each(["lock", "optimistic"] as const)(
    "sells each request once, however often it must be sent (%s)",
    async (way) => {
      const items = Array.from({ length: 60 }, (_, n) => thing(`i${n + 1}`, "s", 10));
      const market = await fixture.open({ users: [person("s", 0), person("b", 600)], items });
      await using proxy = await FaultProxy.start({ port: Number(new URL(fixture.server.url).port) });
      await using redis = await connect(proxy.url);
      const lock = createLock(redis, { leaseMs: 1_000 });
      const shop = new Market(redis, lock, market.id);

      const told: (BuyOutcome | Busy)[] = [];
      let isShopping = true;
      const nemesis = (async () => {
        const chance = random(7);
        let [longestMs, served] = [12, 0];
        while (isShopping) {
          // Not during a handshake, or no connection would ever succeed; afterwards at varying instants.
          await eventually(() => expect(redis.status).toBe("ready"), { timeoutMs: 30_000, intervalMs: 1 });
          const until = performance.now() + chance.between(0, longestMs);
          await eventually(() => expect(performance.now()).toBeGreaterThan(until), { intervalMs: 1 });
          const { resets } = proxy.stats;
          proxy.down.cutNext = 1;
          await eventually(() => expect(!isShopping || proxy.stats.resets > resets).toBe(true), { timeoutMs: 30_000 });
          // If a purchase takes longer than the pauses, no buyer would ever be served.
          longestMs = told.length > served ? 12 : Math.min(1_000, longestMs * 2);
          served = told.length;
        }
      })();
      const left = items.map(({ id }) => id);
      const shopper = async (): Promise<void> => {
        const buy = (item: string): Promise<BuyOutcome | Busy> => {
          const purchase = { item, buyer: "b", price: 10, revision: 1, request: item };
          return eventually(() => shop.buy(way, purchase, "b"), { timeoutMs: 120_000 });
        };
        for (let item = left.pop(); item !== undefined; item = left.pop()) told.push(await buy(item));
        // A machine on which this is quick has seen few replies lost: go on until they are enough.
        while (proxy.stats.resets < 6) await buy("i1");
      };
      await Promise.all([shopper(), shopper(), shopper(), shopper()]);
      isShopping = false;
      await nemesis;
      proxy.heal();
      expect(proxy.stats.resets).toBeGreaterThan(5);
      expect(told.map(({ kind }) => kind)).toEqual(items.map(() => "sold"));
      // Where the lost reply was that of the sale itself depends on the moment; that it may be asked for again does not.
      const again = { item: "i1", buyer: "b", price: 10, revision: 1, request: "i1" };
      expect(await eventually(() => shop.buy(way, again, "b"))).toMatchObject({ kind: "sold", repeat: true });
      await lock.close();
      const ledger = (await fixture.redis.xrange(market.keys.ledger, "-", "+")).map(
        ([, fields]) => entryOf(fields).request,
      );
      expect(ledger.sort()).toEqual(items.map(({ id }) => id).sort());
      expect(await market.audit(["s", "b"])).toMatchObject({
        money: 600,
        items: 60,
        itemsTwice: 0,
        inDebt: 0,
        sales: 60,
      });
    },
  );
});
