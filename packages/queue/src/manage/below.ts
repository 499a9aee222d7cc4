import { boolean, type ClientContext, resolve, type RulesOf } from "@kit/core/toolkit";
import type { QueueKeys } from "../job/keys.js";

/** Options of `cancelJob()` and `removeJob()`. */
export interface EndOptions {
  /**
   * Also ends all jobs below this job in its flow, even if another parent shares them. If the call fails, some of these jobs may continue,
   * and a repeated call does not find them.
   *
   * @default false
   */
  readonly children?: boolean | undefined;
}

const rules = { children: boolean(false) } satisfies RulesOf<EndOptions>;

/** Ends a job, and then the open jobs below it. The job goes first, or it would fail with its children. */
export const endWithBelow = async <Outcome>(
  context: ClientContext,
  keys: QueueKeys,
  id: string,
  options: EndOptions,
  end: (id: string) => Promise<Outcome>,
): Promise<Outcome> => {
  const { children } = resolve("options", options, rules);
  const below = children ? await (await import("../below/index.js")).openBelow(context, keys, id) : [];
  const outcome = await end(id);
  for (const one of below) await end(one);
  return outcome;
};
