import { type Conformance, conforming } from "@tooling/vitest/conformance";
import { type ConsumeOptions, createLimiter, type Limiter, type WaitOptions } from "../src/index.js";
import { consumeRules, limiterRules, waitRules } from "../src/options.js";
import { five, key, name, permanentKeys } from "./harness.js";

const used = async (limiter: Limiter): Promise<void> => void (await limiter.consume(key));
const facts = { limiter: name };

/** A limiter, for the conformance suites. */
export const conformance: Conformance = {
  name: "limiter",
  permanentKeys,
  objects: [
    conforming<Limiter>({
      what: "a limiter",
      make: (client, options) => createLimiter(client, name, { limits: five, ...options }),
      named: (client, named) => createLimiter(client, named, { limits: five }),
      options: limiterRules,
      refused: {
        limits: [null, "5", 5, [], [{ count: 1, perMs: 1 }], {}, { a: null }, { a: { count: 0, perMs: 1 } }],
      },
      uses: (limiter) => limiter.consume(key),
      others: ["metrics"],
      calls: {
        consume: {
          options: consumeRules,
          run: (limiter, options: ConsumeOptions) => limiter.consume(key, options),
          named: (limiter, named) => limiter.consume(named),
          trace: ["kit:limiter.consume", facts],
        },
        check: {
          options: consumeRules,
          prepare: used,
          run: (limiter, options: ConsumeOptions) => limiter.check(key, options),
          named: (limiter, named) => limiter.check(named),
          trace: ["kit:limiter.check", facts],
        },
        wait: {
          options: waitRules,
          run: (limiter, options: WaitOptions) => limiter.wait(key, options),
          named: (limiter, named) => limiter.wait(named),
          trace: ["kit:limiter.wait", facts],
        },
        penalize: {
          prepare: used,
          run: (limiter) => limiter.penalize(key, 2),
          named: (limiter, named) => limiter.penalize(named),
          trace: ["kit:limiter.penalize", facts],
        },
        reward: {
          prepare: used,
          run: (limiter) => limiter.reward(key),
          named: (limiter, named) => limiter.reward(named),
          trace: ["kit:limiter.reward", facts],
        },
        block: {
          prepare: used,
          run: (limiter) => limiter.block(key, 60_000),
          named: (limiter, named) => limiter.block(named, 1),
          trace: ["kit:limiter.block", facts],
        },
        reset: {
          prepare: used,
          run: (limiter) => limiter.reset(key),
          named: (limiter, named) => limiter.reset(named),
          trace: ["kit:limiter.reset", facts],
        },
        setLimits: {
          run: (limiter) => limiter.setLimits(five),
          trace: ["kit:limiter.setLimits", facts],
        },
      },
    }),
  ],
};
