import { readFileSync } from "node:fs";
import { type LossReason, lossWords } from "@kit/core/leasing";
import { createLock, type Lock } from "@kit/lock";
import { eventually, startRedis } from "@kit/testing";
import { describeMigration } from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { Lab, type Machine } from "./lab.js";
import { Page } from "./page.js";

const file = new URL("../runbooks/lost-locks.md", import.meta.url);
const page = new Page("lost-locks.md");
const name = "item:42";

describeMigration(startRedis, file, new URL("lost-locks/", import.meta.url));

let lab: Lab;
let machine: Machine;
beforeEach(async () => {
  lab = new Lab();
  onTestFinished(() => lab[Symbol.asyncDispose]());
  machine = await lab.machine('save ""\n');
  await machine.start();
});

const type = (step: string, of = machine): Promise<string> =>
  lab.type(page, page.step(step), [of], { HOST: of.host, PORT: of.port, NAME: "item%3A42" });

/** The reason that a holder receives after `cause` has happened to its server. */
const lossBy = async (cause: (client: Redis, lock: Lock) => Promise<unknown>, leaseMs = 3_000): Promise<LossReason> => {
  const client = machine.client({ retryStrategy: () => 20 });
  const lock = createLock(client, { leaseMs, holder: "web-1" });
  lab.onClose(() => lock.close({ timeoutMs: 0 }));
  await lock.acquire(name);
  const lost = new Promise<LossReason>((resolve) => lock.once("lost", ({ reason }) => resolve(reason)));
  await cause(client, lock);
  return await lost;
};

describe("Why did I lose my lock?", () => {
  it("has a row for each reason, and no others", () => {
    const [, table = ""] = /^\| `reason`[^\n]*\n(.*?)\n\n/ms.exec(readFileSync(file, "utf8")) ?? [];
    const named = [...table.matchAll(/^\| ((?:`[\w-]+`(?:, )?)+) +\|/gm)].flatMap(([, cell = ""]) =>
      cell.replaceAll("`", "").split(", "),
    );
    expect(named.toSorted()).toEqual(Object.keys(lossWords).toSorted());
  });

  it("shows who has it now", async () => {
    expect(await lossBy((_, lock) => lock.forceRelease(name))).toBe("expired");
    const other = createLock(machine.client(), { holder: "web-2" });
    lab.onClose(() => other.close({ timeoutMs: 0 }));
    await other.acquire(name);
    expect(await type("Who has it now")).toContain("|web-2");
  });

  it("shows a server that restarted without its data", async () => {
    const reason = await lossBy(async () => {
      await machine.end("SIGKILL");
      await machine.start();
    });
    expect(["expired", "deadline"]).toContain(reason);
    expect(await type("Did the server restart")).toMatch(/uptime_in_seconds:\d{1,2}\s/);
  });

  it("shows that keys were evicted", async () => {
    // A renewal finds it, also where the machine stands still for seconds.
    const reason = await lossBy(async (client) => {
      await client.call("CONFIG", "SET", "maxmemory-policy", "allkeys-random");
      await client.call("CONFIG", "SET", "maxmemory", "1mb");
      await eventually(async () => expect(await client.dbsize()).toBe(0));
    }, 15_000);
    expect(reason).toBe("expired");
    const printed = await type("Did it evict keys");
    expect(printed).toContain("allkeys-random");
    expect(Number(/evicted_keys:(\d+)/.exec(printed)?.[1])).toBeGreaterThan(0);
  });

  it("shows that somebody deleted it", async () => {
    expect(await lossBy((client) => client.flushall())).toBe("expired");
    expect(await type("Did somebody delete it")).toContain("cmdstat_flushall:calls=1");
  });

  it("shows that another server took over", async () => {
    const replica = await lab.machine(
      `save ""\nrepl-diskless-sync-delay 0\nreplicaof ${machine.host} ${machine.port}\n`,
    );
    await replica.start();
    const client = replica.client();
    await eventually(async () => expect(await client.info("replication")).toContain("master_link_status:up"), {
      timeoutMs: 30_000,
    });
    await client.replicaof("NO", "ONE");
    const printed = await type("Did another server take over", replica);
    expect(printed).toContain("role:master");
    expect(printed).toMatch(/master_replid2:(?!0{40})[0-9a-f]{40}/);
    expect(await type("Did another server take over")).toMatch(/master_replid2:0{40}/);
  });

  it("has no step that was not tried here", () => {
    expect(page.untried).toEqual([]);
  });
});
