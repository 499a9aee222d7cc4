import {
  acquireRules,
  type Conformance,
  conforming,
  integer,
  leaserRules,
  leaseRules,
  refusing,
  signal,
  text,
} from "@tooling/vitest/conformance";
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
import { name, works } from "./harness.js";

const permits = integer(0, 1_000_000_000);
const weight = integer(1, 1_000_000_000);
const tenant = "a";
const tryRules = { ...leaseRules, weight, tenant: text(128), signal };
const callRules = { ...acquireRules, weight, tenant: text(128), priority: integer(-1_000, 1_000) };
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
      options: { ...leaserRules, permits, permitsPerTenant: permits },
      required: ["permits"],
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
          options: callRules,
          required: { tenant },
          run: (semaphore, options: AcquireOptions) => semaphore.acquire(options),
          trace: ["kit:semaphore.acquire", { name, waitMs: Infinity }],
        },
        "acquire, waiting": {
          options: callRules,
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
          options: callRules,
          required: { tenant },
          run: (semaphore, options: AcquireOptions) => semaphore.using(() => 1, options),
        },
        setPermits: {
          options: {
            permits,
            permitsPerTenant: { ...permits, refused: permits.refused.filter((one) => one !== null) },
          },
          required: { permits: 5 },
          run: (semaphore, limits: NewLimits) => semaphore.setPermits(limits),
        },
        inspect: {
          options: { tenant: refusing("", "x".repeat(129), "a\ud800", 42, null) },
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
