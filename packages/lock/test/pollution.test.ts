import { useRedis } from "@kit/testing";
import { describeLeasePollution } from "@tooling/vitest/conformance";
import { drawing } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { fixtureOf } from "./harness.js";
import { leasingOf } from "./leasing.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const runs = 1_500;

describeLeasePollution(leasingOf(redis));

it("reads a stored holder as text, whatever it contains", async () => {
  const { json } = drawing(4);
  const lock = fixture.make();
  const { lease } = fixture.keysOf("chest");
  for (let run = 0; run < runs; run++) {
    const holder = json();
    await fixture.db.set(lease, `token|${holder}`, "PX", 10_000);
    expect(await lock.inspect("chest")).toMatchObject({ state: "held", holder });
  }
});
