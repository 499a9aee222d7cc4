import { createHash } from "node:crypto";
import { appendFile } from "node:fs/promises";
import { Readable } from "node:stream";
import { eventually, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { inStep } from "@tooling/vitest/helpers";
import { countWords, fixtureOf, logLines, textOf, wordsOf, writeLog } from "./harness.js";

/** A master dies while files are processed, shipped and received; another takes its place. */
describe("a failover under Sentinel", () => {
  const redis = useRedis(vitest, { mode: "sentinel", permanentKeys: ["*"] });
  const fixture = fixtureOf(redis);
  const replicasOf = (master: { readonly port: number }) =>
    [...redis.server.nodes, ...redis.server.replicas].filter(({ port }) => port !== master.port);
  const failOver = async (): Promise<void> => {
    const before = await redis.server.master();
    // A replica may have joined without being sent anything yet; from now on it lacks the last writes at most.
    await inStep(before, replicasOf(before));
    await before.kill();
    await eventually(async () => expect((await redis.server.master()).port).not.toBe(before.port), {
      timeoutMs: 30_000,
    });
    redis.defer(() => before.start());
  };

  it(
    "costs a channel no line and duplicates none, whatever writes the new master lacks",
    { timeout: 120_000 },
    async () => {
      const directory = await fixture.directory();
      const lines = logLines(0, 40_000);
      const path = await writeLog(directory, "a.log", lines);
      const own = { client: fixture.connect(), isolate: true };
      const shipper = fixture.shipper({ limitBytes: 60_000, chunkBytes: 2_048, codec: "none", ...own });
      const receiver = fixture.receiver({ flushLines: 200, ...own });
      const running = receiver.run(countWords);
      const shipping = shipper.add(path);
      let committed = 0;
      receiver.on("progress", ({ lines: count }) => (committed += count));
      await eventually(() => expect(committed).toBeGreaterThan(2_000), { timeoutMs: 20_000 });
      await failOver();
      expect((await shipping).sha256).toBe(createHash("sha256").update(textOf(lines)).digest("hex"));
      await shipper.closeChannel();
      await running;
      expect(await receiver.results("words")).toEqual(wordsOf(lines));
      expect((await shipper.status())!.usedBytes).toBe(0);
    },
  );

  it("costs a job no line and duplicates none", { timeout: 120_000 }, async () => {
    const directory = await fixture.directory();
    const lines = logLines(0, 40_000);
    await writeLog(directory, "a.log", lines.slice(0, 20_000));
    await writeLog(directory, "b.log.gz", lines.slice(20_000));
    const job = fixture.job({ directory, flushLines: 100, leaseMs: 2_000, client: fixture.connect(), isolate: true });
    let [committed, failing] = [0, undefined as Promise<void> | undefined];
    job.on("progress", () => {
      if (++committed === 20) failing = failOver();
    });
    await job.run(async (some, results, context) => {
      await countWords(some, results, context);
      if (failing) await failing;
    });
    expect(committed).toBeGreaterThan(20);
    expect(await job.results("words")).toEqual(wordsOf(lines));
    await appendFile(`${directory}/a.log`, textOf(lines.slice(0, 10)));
    expect(await job.run(() => undefined)).toEqual({ files: 1, lines: 10 });
  });

  it("lets a stream that is written meanwhile arrive whole", { timeout: 120_000 }, async () => {
    const own = { client: fixture.connect(), isolate: true };
    const shipper = fixture.shipper({ chunkBytes: 2_048, flushMs: 20, ...own });
    const lines = logLines(0, 3_000);
    const source = async function* (): AsyncGenerator<string> {
      yield textOf(lines.slice(0, 1_000));
      await eventually(async () => expect((await shipper.status())!.files[0]!.chunks).toBeGreaterThan(2));
      // Nothing is written now, so all that was confirmed reaches the replicas: a stream cannot be read again.
      await failOver();
      yield textOf(lines.slice(1_000));
    };
    const shipped = await shipper.send("a", Readable.from(source()));
    expect(shipped.lines).toBe(3_000);
    const receiver = fixture.receiver(own);
    await receiver.run(countWords, { until: "empty" });
    expect(await receiver.results("words")).toEqual(wordsOf(lines));
  });
});
