import { useRedis } from "@kit/testing";
import { describeLeaseHandover } from "@tooling/vitest/conformance";
import { rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fixtureOf } from "./harness.js";
import { leasingOf } from "./leasing.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);

describeLeaseHandover(leasingOf(redis));

describe("resume of a permit", () => {
  it("continues with weight and tenant", async () => {
    const group = fixture.make({ permits: 9, permitsPerTenant: 5 });
    const permit = await group.acquire({ weight: 3, tenant: "a|b ü" });
    expect(JSON.parse(permit.serialise())).toMatchObject({ weight: 3, tenant: "a|b ü" });
    const resumed = await group.resume(permit.handOver());
    expect(resumed).toMatchObject({ weight: 3, tenant: "a|b ü", token: permit.token });
    expect(await group.tryAcquire({ weight: 3, tenant: "a|b ü" })).toBeNull();
    expect([await resumed.release(), await fixture.used()]).toEqual(["released", 0]);
  });

  it("refuses the permit of another semaphore and terms that are none, and finds none of another tenant", async () => {
    const text = (await fixture.make().acquire()).serialise();
    expect(await rejection(fixture.make({ name: "other" }).resume(text))).toBeInstanceOf(TypeError);
    const forged = text.replace('"tenant":null', '"tenant":"a"');
    expect(await rejection(fixture.make().resume(forged))).toMatchObject({
      code: "KIT_PERMIT_LOST",
      reason: "expired",
    });
    for (const weight of [0, -1, 1.5, 1e10])
      expect(
        await rejection(fixture.make().resume(text.replace('"weight":1', `"weight":${String(weight)}`))),
      ).toBeInstanceOf(RangeError);
    expect(await fixture.used()).toBe(1);
  });
});
