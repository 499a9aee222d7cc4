import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys: ["*"] });
const fixture = fixtureOf(redis);

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;
const mebibyte = 1_048_576;
const heldBytes = (): number => {
  collect();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
};

describe("text that has passed", () => {
  it("is not held: neither by a shipper nor by a receiver, however long the file is", async () => {
    const block = Buffer.from(`${"x".repeat(1_023)}\n`.repeat(1_024));
    let mostShipped = -Infinity;
    async function* blocks(): AsyncGenerator<Buffer> {
      const before = heldBytes();
      for (let count = 1; count <= 96; count++) {
        yield Buffer.from(block);
        if (count % 16 === 0) mostShipped = Math.max(mostShipped, heldBytes() - before);
      }
    }
    const shipper = fixture.shipper({ maxInFlight: 4 });
    await shipper.send("a", blocks());
    let mostReceived = -Infinity;
    let lines = 0;
    const before = heldBytes();
    await fixture.receiver({ prefetchBytes: 2 * mebibyte }).run(
      (some) => {
        lines += some.length;
        if (lines % 16_384 < some.length) mostReceived = Math.max(mostReceived, heldBytes() - before);
      },
      { until: "empty" },
    );
    expect(lines).toBe(96 * 1_024);
    // Less than before is possible: memory of the test itself may have been freed.
    expect([mostShipped, mostReceived].map(Number.isFinite)).toEqual([true, true]);
    // The window, and garbage that is not collected yet; all of the text would be 96 MiB.
    expect(mostShipped).toBeLessThan(64 * mebibyte);
    expect(mostReceived).toBeLessThan(64 * mebibyte);
  });
});
