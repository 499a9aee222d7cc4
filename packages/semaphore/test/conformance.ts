import { acquireCalls, type Conformance, conforming, leaseCalls, wakesByRelease } from "@tooling/vitest/conformance";
import {
  type AcquireOptions,
  createSemaphore,
  type InspectOptions,
  type NewLimits,
  type Permit,
  type Semaphore,
  type SemaphoreOptions,
  type TryOptions,
} from "../src/index.js";
import { acquireRules, inspectRules, limitRules, semaphoreRules, tryRules } from "../src/options.js";
import { name, works } from "./harness.js";

const tenant = "a";
const all = { tenant, weight: 2 };
const hold = (semaphore: Semaphore): Promise<Permit> => semaphore.acquire(all);

/** A group, which has all that a semaphore has, for the conformance suites. */
export const conformance: Conformance = {
  name: "semaphore",
  tracesResults: true,
  hidesTokens: true,
  objects: [
    conforming<Semaphore>({
      what: "a semaphore",
      make: (client, options) => {
        const given: SemaphoreOptions = { permits: 5, permitsPerTenant: undefined, ...options };
        const { permitsPerTenant } = given;
        return createSemaphore(client, name, {
          ...given,
          permitsPerTenant: permitsPerTenant === undefined ? 2 : permitsPerTenant,
        });
      },
      named: (client, named) => createSemaphore(client, named, { permits: 1 }),
      options: semaphoreRules,
      uses: (semaphore) => semaphore.using(() => 1, { tenant }),
      works: async (semaphore) => {
        await semaphore.setPermits({ permitsPerTenant: 3 });
        await works(semaphore);
      },
      wakes: { acquire: wakesByRelease(hold) },
      calls: {
        ...acquireCalls<Semaphore>({
          name,
          what: "semaphore",
          options: acquireRules,
          tryOptions: tryRules,
          required: { tenant },
          isNamed: true,
          hold,
          acquire: (semaphore, options: AcquireOptions) => semaphore.acquire(options),
          tryAcquire: (semaphore, options: TryOptions) => semaphore.tryAcquire(options),
          using: (semaphore, options: AcquireOptions) => semaphore.using(() => 1, options),
        }),
        setPermits: {
          options: limitRules,
          required: { permits: 5 },
          run: (semaphore, limits: NewLimits) => semaphore.setPermits(limits),
        },
        inspect: {
          options: inspectRules,
          prepare: hold,
          run: (semaphore, options: InspectOptions) => semaphore.inspect(options),
        },
        ...leaseCalls<Semaphore>({ what: "semaphore", name, lease: "permit", lostCode: "KIT_PERMIT_LOST", hold }),
      },
    }),
  ],
};
