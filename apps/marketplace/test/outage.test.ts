// A shop whose Redis is gone, silent, or of another kind; and one that is opened where a shop already exists.
import { createPrefixIndex } from "@kit/autocomplete";
import { connect } from "@kit/core";
import { eventually, FaultProxy, startRedis } from "@kit/testing";
import { describe, expect, it } from "vitest";
import { ask } from "../src/common/http-client.js";
import { Shop } from "../src/behind/shop.js";
import { startShop, useSharedShop, Visitor } from "./shop.js";

const shop = useSharedShop("ceramics");
const { keys } = shop;

describe("Without Redis", () => {
  it("answers 503 with a calm page within its deadline, silent or gone, and opens again by itself", async () => {
    await using own = await startRedis();
    const node = own.nodes[0];
    await using proxy = await FaultProxy.start({ port: node?.port ?? 0 });
    const away = await startShop("--redis", proxy.url);
    try {
      proxy.down.hole = true;
      expect((await ask(away.origin, "/")).status).toBe(503);
      proxy.heal();
      await eventually(async () => expect((await ask(away.origin, "/")).status).toBe(200), { timeoutMs: 60_000 });

      const visitor = new Visitor(away.origin);
      const csrf = await visitor.signIn("u61");
      await node?.kill();
      for (const path of ["/", "/item/i1", "/me", "/personas"]) {
        const reply = await visitor.get(path);
        expect([path, reply.status]).toEqual([path, 503]);
        expect(reply.body).toContain("Temporarily unavailable");
        expect(reply.body).not.toMatch(/redis|\bECONN|Error|127\.0\.0\.1/i);
      }
      expect((await visitor.post("/item/i1/buy", { csrf, way: "lock" })).status).toBe(503);
      expect((await visitor.get("/health")).status).toBe(200);

      await node?.start();
      // It came back empty; the bar does not call that in order.
      await eventually(
        async () => expect((await visitor.get("/")).body).toContain("lost: Redis restarted without its data"),
        { timeoutMs: 60_000 },
      );
    } finally {
      expect(await away.stop()).toMatchObject({ code: 0 });
    }
  });

  it("says in one line that no Redis is there, and exits 1", async () => {
    await expect(startShop("--redis", "redis://127.0.0.1:1")).rejects.toThrow(
      /ended with 1: Cannot reach Redis at 127\.0\.0\.1:1 .*\n$/,
    );
  });
});

describe("At the start", () => {
  const place = { prefix: "kit", isGuestServer: false, hasReplicas: false };

  it("leaves an existing shop in Redis alone", async () => {
    const sales = async (): Promise<number> => Number(await shop.redis.hget(keys.totals, "sales"));
    await shop.enrich("u66");
    const visitor = new Visitor(shop.origin);
    const csrf = await visitor.signIn("u66");
    const { id, price, revision } = await shop.cheap();
    await visitor.post(`/item/${id}/buy`, { csrf, request: "before", price, revision, way: "lock" });
    const before = await sales();
    expect(before).toBeGreaterThan(0);
    const second = await Shop.open({ ...place, url: shop.url });
    expect(second.isNew).toBe(false);
    await second.close();
    expect(await sales()).toBeGreaterThanOrEqual(before);
    expect(await shop.redis.sismember(keys.inventory("u66"), id)).toBe(1);
  });

  it("completes the names of a shop whose opening was interrupted", async () => {
    await using own = await startRedis();
    await using redis = await connect(own.url);
    await using index = createPrefixIndex(redis, "market");
    await index.put({ id: "i1", text: "Interrupted", payload: { kind: "item" } });
    const opened = await Shop.open({ ...place, url: own.url });
    expect((await opened.search.find("brass", 5)).hits).not.toEqual([]);
    await opened.close();
  });

  it("is done again when Redis is cut off in the middle, with nothing left out", async () => {
    await using own = await startRedis();
    await using proxy = await FaultProxy.start({ port: own.nodes[0]?.port ?? 0 });
    let isCut = false;
    const opened = await Shop.open({
      ...place,
      url: proxy.url,
      // After the books are written: the first word of progress.
      onProgress: () => {
        if (isCut) return;
        isCut = true;
        proxy.down.hole = true;
        setTimeout(() => proxy.heal(), 6_000);
      },
    });
    try {
      expect(opened.isNew).toBe(true);
      await eventually(async () => expect(await opened.stats.sales.total()).toBeGreaterThan(1_000));
      expect((await opened.search.find("brass", 5)).hits).not.toEqual([]);
    } finally {
      await opened.close();
    }
  });

  it("refuses a shop of another layout in one line", async () => {
    await using own = await startRedis();
    await own.client().hset(keys.about, "layout", "99");
    await expect(startShop("--redis", own.url)).rejects.toThrow(
      /ended with 1: The shop in this Redis has layout 99, this program knows 2\n$/,
    );
  });
});
