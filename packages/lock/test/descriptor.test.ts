import type { Connection } from "@kit/core";
import type { Report } from "@kit/core/toolkit";
import { useRedis } from "@kit/testing";
import { commandCall, describeDescriptor } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { descriptor } from "../src/descriptor/index.js";
import { createLock } from "../src/index.js";

const redis = useRedis(vitest);
describeDescriptor(descriptor, redis);

describe("kit lock release", () => {
  const release = async (name: string, options: { run?: true } = {}): Promise<Report> => {
    const call = commandCall(redis.client as unknown as Connection, redis.prefix, options);
    const reports: Report[] = [];
    const report = (one: Report): Promise<void> => Promise.resolve(void reports.push(one));
    const command = descriptor.commands!.find(({ path }) => path === "lock release")!;
    await command.run({ ...call, output: { ...call.output, report } }, name);
    return reports[0]!;
  };

  it("shows which holder would lose the lock, and takes it away only with --run", async () => {
    const { prefix } = redis;
    const dead = createLock(redis.client, { prefix, holder: "web-1", leaseMs: 600_000, renew: false });
    redis.defer(() => dead.close({ timeoutMs: 0 }));
    await dead.acquire("report");
    const { data, facts } = await release("report");
    expect(data).toMatchObject({ lock: "report", isDryRun: true, holder: "web-1", waiters: 0 });
    expect(facts).toEqual(
      expect.arrayContaining([
        ["holder", "web-1"],
        ["lease", expect.stringMatching(/^expires in 10 min/)],
        ["next step", "run the same command with --run"],
      ]),
    );
    expect(await dead.inspect("report")).toMatchObject({ state: "held", holder: "web-1" });
    expect((await release("report", { run: true })).data).toEqual({ lock: "report", isDryRun: false, holder: "web-1" });
    expect(await dead.inspect("report")).toMatchObject({ state: "free" });
    for (const options of [{}, { run: true as const }]) {
      const { facts, isUnknown } = await release("report", options);
      expect(facts).toEqual([[expect.stringMatching(/released$/), "nothing: the lock is free"]]);
      expect(isUnknown).toBeUndefined();
    }
  });
});
