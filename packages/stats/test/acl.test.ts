import { connect } from "@kit/core";
import { eventually, useRedis } from "@kit/testing";
import { describeUser, expectGranted, grantedCommands, rejection, usedCommands } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { user } from "./acl.js";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);

describe("the ACL user of statistics", () => {
  it("is granted the commands that they run, and no other", async () => {
    const spoilt = fixture.keysOf("spoilt_total").total;
    await fixture.db.rpush(spoilt, "not a counter");
    await fixture.db.pexpire(spoilt, 60_000);
    await redis.server.nodes[0]!.call("CONFIG", "RESETSTAT");
    const client = await connect({ url: redis.url, deadlineMs: 10_000 });
    redis.defer(() => client.close());
    const stats = fixture.on(client, { isolate: true });
    await stats.counter("orders_total").add(1);
    await stats.counter("orders_total").read({ lastMs: 1_000 });
    expect(await rejection(stats.counter("spoilt_total").add(1))).toMatchObject({ code: "KIT_KEY_TYPE" });
    await stats.apply([{ name: "orders_total", amount: 1 }], { writer: "w", seq: 1 });
    const wide = stats.distribution("wide", { maxBins: 16, slowest: 1 });
    // Two batches: bins of one collapse before they are sent.
    for (let power = 0; power < 20; power++) {
      wide.observe(2 ** power, { subject: String(power) });
      if (power % 10 === 9) await stats.flush();
    }
    await wide.slowest({ lastMs: 1_000 });
    const shown = fixture.on(client);
    await shown.counter("views_total", { labelNames: ["category"] }).add({ category: "hats" });
    await shown.flush();
    await shown.expose();
    const log = stats.messages("log", { maxDistinct: 1, keepEntries: 1 });
    for (const text of ["a", "a", "b"]) {
      log.log("info", text);
      await stats.flush();
    }
    await log.recent();
    await log.frequent({ lastMs: 1_000 });
    const ending = new AbortController();
    const tailing = (async () => {
      for await (const _ of log.tail({ signal: ending.signal }));
    })();
    await eventually(async () => expect(await usedCommands(redis.server.nodes)).toContain("client|setname"));
    await eventually(async () =>
      expect(String(await redis.server.nodes[0]!.call("CLIENT", "LIST"))).toContain("cmd=xread"),
    );
    ending.abort();
    await tailing;
    await stats.close();
    const used = (await usedCommands(redis.server.nodes)).filter((command) => command !== "client|list");
    // XREAD counts as run when it is answered; core sends PING only on a connection that went silent.
    expectGranted([...new Set([...used, "xread", "ping"])].toSorted(), grantedCommands(user.grants("single")));
  });

  describeUser(user, redis, new URL("../docs/operations.md", import.meta.url), async (client) => {
    await fixture.on(client).counter("orders_total").add(1);
    return fixture.keysOf("orders_total").total;
  });
});
