// The same shop on a Cluster, and on a master with replicas and Sentinels: every package answers, and a failover loses
// nothing that was confirmed.
import { eventually } from "@kit/testing";
import { expect, it } from "vitest";
import { field } from "../src/common/http-client.js";
import { startShop, Visitor } from "./shop.js";

const json = "application/json";

export const describeMode = (mode: "cluster" | "sentinel"): void => {
  it(`--mode ${mode} sells, does the jobs, chats, counts; and continues after a failover with nothing lost`, async () => {
    const shop = await startShop("--mode", mode, "--no-visitors");
    try {
      await shop.isComplete();
      const visitor = new Visitor(shop.origin);
      const csrf = await visitor.signIn("u437");
      const buyFirst = async (category: string): Promise<string> => {
        const shelf = await visitor.get(`/?category=${category}`);
        for (const [, path = ""] of shelf.body.matchAll(/href="(\/item\/\w+)"/g)) {
          const page = await visitor.get(path);
          if (!page.body.includes(`action="${path}/buy"`)) continue;
          const names = ["csrf", "request", "price", "revision"] as const;
          const form = Object.fromEntries(names.map((name) => [name, field(page.body, name)]));
          const answer = await visitor.post(`${path}/buy`, { ...form, way: "lock" }, json);
          const { order } = JSON.parse(answer.body) as { order?: string };
          if (order !== undefined) return order;
        }
        throw new Error("nothing could be bought");
      };
      const order = await buyFirst("toys");
      await visitor.post(`/order/${order}/say`, { csrf, id: "m", text: "Does it still work?" });
      await eventually(
        async () => {
          const { body } = await visitor.get(`/order/${order}`);
          expect(body).toContain("As described");
          expect(body.match(/class="mark good"/g)?.length).toBeGreaterThanOrEqual(5);
        },
        { timeoutMs: 60_000 },
      );
      expect((await visitor.get("/suggest?q=brass", json)).body).toMatch(/brass/i);
      expect((await visitor.get("/logs")).status).toBe(200);

      expect((await visitor.post("/faults", { csrf, fault: "failover" })).status).toBe(303);
      await eventually(
        async () => {
          const page = await visitor.get("/faults");
          const state = /<div id="fault-failover">(.*?)<\/div>/s.exec(page.body)?.[1] ?? "";
          expect(state).toMatch(/took over\. Redis replied again/);
          expect(state).toContain("money and items complete");
          expect(state).toContain('class="mark good"');
        },
        { timeoutMs: 90_000, intervalMs: 500 },
      );
      const { body } = await visitor.get(`/order/${order}`);
      expect(body).toContain("Does it still work?");
      await eventually(async () => void (await buyFirst("books")), { timeoutMs: 30_000, intervalMs: 500 });
    } finally {
      expect(await shop.stop()).toEqual({ code: 0 });
    }
  });
};
