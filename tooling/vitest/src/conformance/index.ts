import { beforeEach, describe, expect, it } from "vitest";
import { guardPrototypes } from "../hostile.js";
import { cancellation, takesSignal } from "./cancellation.js";
import { clients, smokeKinds } from "./clients.js";
import { closing } from "./closing.js";
import type { Conformance, Conforming } from "./description.js";
import { eviction } from "./eviction.js";
import { Fixture, type Ground, keysOf } from "./ground.js";
import { options } from "./options.js";
import { outages } from "./outages.js";
import { secrets } from "./secrets.js";
import { expectTracesDescribed, isTraced, tracing } from "./tracing.js";

export { acquireCalls, leaseCalls, wakesByRelease } from "./leasing/calls.js";
export { describeLeaseArrival } from "./leasing/arrival.js";
export { describeLeaseCancellation } from "./leasing/cancellation.js";
export { describeLeaseClients, describeLeasingSmoke } from "./leasing/clients.js";
export { describeLeaseClosing, describeLeasingProcess } from "./leasing/closing.js";
export { describeLeaseEvents } from "./leasing/events.js";
export {
  allInStep,
  describeLeaseFailover,
  describeLeaseSentinels,
  describeLeaseShard,
  failOver,
} from "./leasing/failover.js";
export { describeLeaseHandover } from "./leasing/handover.js";
export { describeHolding } from "./leasing/holding.js";
export { type Leaser, type Leasing, proxied } from "./leasing/leasing.js";
export type { Proxy } from "./ground.js";
export { describeLeaseLoss } from "./leasing/loss.js";
export { describeLeaseOptions } from "./leasing/options.js";
export { describeLeasePollution } from "./leasing/pollution.js";
export { describeMovedSlot, describeRecovery } from "./leasing/recovery.js";
export { describeLeaseUser } from "./leasing/user.js";
export { describeWaiting } from "./leasing/waiting.js";
export { canary, type Conformance, conforming } from "./description.js";
/** An object's public methods, own and inherited, without those of emitters and of closing. */
const methodsOf = (made: object): readonly string[] => {
  const names: string[] = [];
  for (
    let owner = Object.getPrototypeOf(made) as object;
    owner.constructor.name !== "TypedEmitter" && owner !== Object.prototype;
    owner = Object.getPrototypeOf(owner) as object
  )
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(owner)))
      if (typeof value === "function" && !["constructor", "close"].includes(name)) names.push(name);
  return names;
};

const describeCalls = (fixture: Fixture, { make, calls, others = [] }: Conforming): void => {
  it("has each public method in its description", async () => {
    const made = make(fixture.redis.client as never, { prefix: fixture.redis.prefix }) as { close?(): Promise<void> };
    await made.close?.();
    const described = new Set([...Object.keys(calls).map((key) => key.split(/[ .,]/)[0]!), ...others]);
    const missing = methodsOf(made).filter((name) => !described.has(name));
    expect(missing, "missing from `calls` and `others` of test/conformance.ts").toEqual([]);
  });
};

/** Tests the promises that all packages share, by a package's description. */
export const describeConformance = (description: Conformance, ground: Ground): void => {
  const fixture = new Fixture(description, ground);
  guardPrototypes();
  beforeEach(() => fixture.begin());
  for (const object of description.objects)
    describe(object.what, () => {
      describeCalls(fixture, object);
      describe("options", () => {
        options(fixture, object);
      });
      if (!object.hasNoClose)
        describe("close", () => {
          closing(fixture, object);
        });
      describe("clients", () => {
        clients(fixture, object);
      });
      describe("outages", () => {
        outages(fixture, object);
      });
      if (object.uses)
        describe("eviction", () => {
          eviction(fixture, object);
        });
      if (keysOf(object, takesSignal).length > 0)
        describe("signals", () => {
          cancellation(fixture, object);
        });
      if (keysOf(object, isTraced).length > 0)
        describe("traces", () => {
          tracing(fixture, object);
        });
      describe("secrets", () => {
        secrets(fixture, object);
      });
    });
  it(`traces nothing of ${description.name} that its description lacks`, () => expectTracesDescribed(description));
};

/** The suites that depend on the client, for the smoke file that runs with the other major of ioredis. */
export const describeSmoke = (description: Conformance, ground: Ground): void => {
  const fixture = new Fixture(description, ground);
  beforeEach(() => fixture.begin());
  for (const object of description.objects)
    describe(object.what, () => {
      clients(fixture, object, smokeKinds);
      if (!object.hasNoClose) closing(fixture, object);
    });
};
