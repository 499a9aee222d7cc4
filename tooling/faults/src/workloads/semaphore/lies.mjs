import { late, leasing } from "../../lab/lies.mjs";

export const lies = {
  "late-loss": ({ createSemaphore }) => ({
    createSemaphore: leasing(createSemaphore, (permit) => ({ signal: late(permit.signal) })),
  }),
};
