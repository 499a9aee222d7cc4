import { type Conformance, conforming } from "@tooling/vitest/conformance";
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
      wakes: {
        acquire: async (semaphore, settle) => {
          const held = await hold(semaphore);
          const waiting = hold(semaphore);
          await settle();
          await held.release();
          return await (await waiting).release();
        },
      },
      calls: {
        acquire: {
          options: acquireRules,
          required: { tenant },
          run: (semaphore, options: AcquireOptions) => semaphore.acquire(options),
          trace: ["kit:semaphore.acquire", { name, waitMs: Infinity }],
        },
        "acquire, waiting": {
          options: acquireRules,
          required: { tenant },
          prepare: hold,
          run: (semaphore, options: AcquireOptions) => semaphore.acquire(options),
          waits: true,
        },
        tryAcquire: {
          options: tryRules,
          required: { tenant },
          run: (semaphore, options: TryOptions) => semaphore.tryAcquire(options),
          trace: ["kit:semaphore.acquire", { name, waitMs: 0 }],
        },
        using: {
          options: acquireRules,
          required: { tenant },
          run: (semaphore, options: AcquireOptions) => semaphore.using(() => 1, options),
        },
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
        resume: {
          prepare: async (semaphore) => (await hold(semaphore)).serialise(),
          run: (semaphore, _options, saved: string) => semaphore.resume(saved),
        },
        "permit.extend": {
          prepare: hold,
          run: (_semaphore, _options, permit: Permit) => permit.extend(),
          closed: "KIT_PERMIT_LOST",
        },
        "permit.release": {
          prepare: hold,
          run: (_semaphore, _options, permit: Permit) => permit.release(),
          closed: "not-held",
          trace: ["kit:semaphore.release", { name }],
        },
      },
    }),
  ],
};
