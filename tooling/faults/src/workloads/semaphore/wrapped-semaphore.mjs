// Controls: the API of a semaphore with one lie. The query of the import's URL names the lie.
import { createSemaphore as createTrueSemaphore } from "@kit/semaphore";
import { late, lying } from "../../lab/lies.mjs";

/** Lies about a permit, by name. */
const lies = {
  "late-loss": (permit) => ({ signal: late(permit.signal) }),
};
const lie = lies[new URL(import.meta.url).search.slice(1)];

const lyingPermit = (permit) => permit && lying(permit, lie(permit));

export const createSemaphore = (...args) => {
  const semaphore = createTrueSemaphore(...args);
  return lying(semaphore, {
    acquire: async (...call) => lyingPermit(await semaphore.acquire(...call)),
    tryAcquire: async (...call) => lyingPermit(await semaphore.tryAcquire(...call)),
    resume: async (...call) => lyingPermit(await semaphore.resume(...call)),
    using: (routine, options) => semaphore.using((permit) => routine(lyingPermit(permit)), options),
  });
};
