import { useRedis } from "@kit/testing";
import { describeLeaseOptions } from "@tooling/vitest/conformance";
import { rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fixtureOf } from "./harness.js";
import { leasingOf } from "./leasing.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);

describeLeaseOptions(leasingOf(redis));

describe("acquire of a semaphore", () => {
  it("refuses a tenant that is half a surrogate pair, and any tenant outside of groups", async () => {
    const group = fixture.make({ permitsPerTenant: 1 });
    expect(await rejection(group.acquire({ tenant: "a\ud800" }))).toBeInstanceOf(RangeError);
    expect(await rejection(fixture.make().acquire({ tenant: "a" }))).toBeInstanceOf(TypeError);
    expect(await rejection(group.inspect({ tenant: "a\ud800" }))).toBeInstanceOf(RangeError);
    expect(await redis.keys()).toEqual([]);
  });
});

describe("setPermits", () => {
  it.each([undefined, null, "3", {}, [], { permits: undefined }])("refuses %o for limits", async (none) => {
    expect(await rejection(fixture.make().setPermits(none as never))).toBeInstanceOf(TypeError);
    expect(await redis.keys()).toEqual([]);
  });

  it("refuses a tenants' limit if there are no tenants", async () => {
    expect(await rejection(fixture.make().setPermits({ permits: 3, permitsPerTenant: 1 }))).toBeInstanceOf(TypeError);
    expect(await redis.keys()).toEqual([]);
  });
});
