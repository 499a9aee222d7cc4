import { useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { countWords, fixtureOf, logLines, textOf, wordsOf, writeLog } from "./harness.js";

/**
 * Everything that depends on the client: binary replies, texts and numbers in replies, pushes. Run with each major of
 * ioredis.
 */
describe("with this major of ioredis", () => {
  const redis = useRedis(vitest, { permanentKeys: ["*"] });
  const fixture = fixtureOf(redis);

  it("processes a directory, ships it under a limit, and receives it", async () => {
    const directory = await fixture.directory();
    const lines = logLines(0, 5_000);
    await writeLog(directory, "1.log", lines.slice(0, 2_000));
    await writeLog(directory, "2.log.gz", lines.slice(2_000));
    const job = fixture.job({ name: "job", directory, isolate: true });
    expect(await job.run(countWords)).toEqual({ files: 2, lines: 5_000 });
    expect(await job.results("words")).toEqual(wordsOf(lines));
    const shipper = fixture.shipper({ limitBytes: 20_000, chunkBytes: 1_024, codec: "none", isolate: true });
    const waiting = new Promise<void>((resolve) => shipper.once("waiting", () => resolve()));
    const shipping = shipper.addDirectory(directory);
    await waiting;
    const receiver = fixture.receiver({ flushLines: 300, isolate: true });
    const running = receiver.run(countWords);
    const shipped = await shipping;
    await shipper.closeChannel();
    expect(await running).toEqual({ files: 2, lines: 5_000 });
    expect(shipped.map(({ textBytes }) => textBytes)).toEqual(
      [lines.slice(0, 2_000), lines.slice(2_000)].map((part) => Buffer.byteLength(textOf(part))),
    );
    expect(await receiver.results("words")).toEqual(wordsOf(lines));
  });
});
