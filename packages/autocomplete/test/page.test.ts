import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { searchServer } from "../examples/page/server.js";
import { fixtureOf, named, permanentKeys } from "./harness.js";

describe("the search page", () => {
  const redis = useRedis(vitest, { permanentKeys });
  const fixture = fixtureOf(redis);
  const serve = async (index: Parameters<typeof searchServer>[0]): Promise<(path: string) => Promise<Response>> => {
    const server = searchServer(index).listen(0, "127.0.0.1");
    redis.defer(() => new Promise((resolve) => server.close(resolve)));
    await once(server, "listening");
    const origin = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
    return (path) => fetch(new URL(path, origin), { headers: { connection: "close" } });
  };

  it("is served, and answers the queries of its box", async () => {
    const index = fixture.index();
    await index.putMany(named("Zoë Ann", "<b>"));
    const get = await serve(index);
    expect(await (await get("/")).text()).toContain('id="query"');
    const reply = await get("/suggest?q=AN");
    expect(await reply.json()).toMatchObject({ items: [{ text: "Zoë Ann", ranges: [[4, 6]] }], hasMore: false });
    expect((await get("/other")).status).toBe(404);
  });

  it("says that it cannot answer, and continues", async () => {
    const index = fixture.index();
    await index.close();
    const get = await serve(index);
    expect((await get("/suggest?q=a")).status).toBe(503);
    expect((await get("/")).status).toBe(200);
  });
});
