import { defineScript } from "@kit/core";
import source from "../store/scripts/popIf.lua";

/** The member that was removed. */
export interface Popped {
  readonly member: string;
  readonly score: number;
}

export const popIfScript = defineScript({
  name: "queue.popIf",
  source,
  keys: ["members"],
  args: ["from", "bound"],
  reply: (raw): Popped | null => {
    if (raw === null) return null;
    const [member, score] = (raw as unknown[]).map(String);
    return { member: member ?? "", score: Number(score?.replace("inf", "Infinity")) };
  },
});
