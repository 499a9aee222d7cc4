// The fault buttons while another fault is active.
import { createChat } from "@kit/chat";
import { connect } from "@kit/core";
import { createLock } from "@kit/lock";
import { eventually, FaultProxy, startRedis } from "@kit/testing";
import { expect, it } from "vitest";
import { Auditor } from "../src/market/auditor.js";
import { type FaultName, Faults } from "../src/behind/faults.js";
import { Market } from "../src/market/market.js";
import { openMarket } from "../src/seed/index.js";
import { person, thing } from "./harness.js";

type Deps = ConstructorParameters<typeof Faults>[0];

const nobody = { note: () => undefined, members: () => [] };
const diary = { write: () => undefined };
const faultsOf = (deps: object): Faults =>
  new Faults({ wire: null, failover: null, partners: null, isEnabled: true, ...deps } as unknown as Deps);

const outcomeOf = async (faults: Faults, name: FaultName): Promise<{ isGood: boolean; text: string }> =>
  await eventually(
    () => {
      const { outcome } = faults.list().find((one) => one.name === name) ?? {};
      if (!outcome) throw new Error(`${name} is under way`);
      return outcome;
    },
    { timeoutMs: 60_000 },
  );

it("a flood during which Redis is cut off fails, and takes nothing with it", async () => {
  await using server = await startRedis();
  await using proxy = await FaultProxy.start({ port: server.nodes[0]?.port ?? 0 });
  await using redis = await connect(proxy.url);
  await using chat = createChat<string>(redis);
  chat.on("error", () => undefined);
  const faults = faultsOf({ shop: { chat, recentLog: diary }, crew: nobody });
  // Slow, so that the message to the other chat is under way when the wire is cut.
  proxy.down.latencyMs = 300;
  faults.begin("flood");
  await eventually(async () => expect(await server.client().keys("*:messages:pair*")).toHaveLength(2), {
    timeoutMs: 30_000,
  });
  proxy.refuse = true;
  proxy.resetAll();
  expect(await outcomeOf(faults, "flood")).toMatchObject({ isGood: false });
});

it.each([
  ["kept", false],
  ["lost, though others were made since", true],
])("a failover tells whether the newest sale was kept: %s", async (_, isLost) => {
  await using server = await startRedis({ replicas: 1 });
  await using redis = await connect(server.url);
  const lock = createLock(redis);
  const market = new Market(redis, lock, "main");
  await openMarket(redis, market.keys, {
    users: [person("s"), person("b")],
    items: [thing("i1", "s", 500), thing("i2", "s", 500)],
  });
  const buy = async (item: string): Promise<unknown> =>
    await market.buy("lock", { item, buyer: "b", price: 500, revision: 1, request: item }, "b");
  await buy("i1");
  const failover = {
    run: async () => {
      if (isLost) await redis.xtrim(market.keys.ledger, "MAXLEN", 0);
      await buy("i2");
      return "It failed over.";
    },
  };
  const auditor = new Auditor(market, ["s", "b"]);
  const faults = faultsOf({ shop: { redis, market, auditor, recentLog: diary }, crew: nobody, failover });
  faults.begin("failover");
  expect(await outcomeOf(faults, "failover")).toMatchObject({
    isGood: !isLost,
    text: expect.stringContaining(isLost ? "are missing" : "1 sales before, 2 now, money and items complete") as string,
  });
  await lock.close();
});

it("a slow wire is made fast again though Redis did not answer", async () => {
  const calls: unknown[] = [];
  const crew = { ...nobody, call: (_: string, what: unknown) => Promise.resolve(calls.push(what)) };
  const redis = { ping: () => Promise.reject(new Error("Command timed out")) };
  const faults = faultsOf({ shop: { redis, recentLog: diary }, crew, wire: "wire" });
  faults.begin("slow");
  expect(await outcomeOf(faults, "slow")).toMatchObject({ isGood: false, text: "Command timed out" });
  expect(calls).toEqual([
    { latencyMs: 300, isCut: false },
    { latencyMs: 0, isCut: false },
  ]);
});
