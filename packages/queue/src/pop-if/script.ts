import { defineScript, type Script } from "@kit/core";
import source from "../scripts/popIf.lua";

/** The member that was taken out. */
export interface Popped {
  readonly member: string;
  readonly score: number;
}

export const popIfScript: Script<readonly ["members"], readonly ["from", "bound"], Popped | null> = defineScript({
  name: "queue.popIf",
  source,
  keys: ["members"],
  args: ["from", "bound"],
  reply: (raw) => {
    if (raw === null) return null;
    const [member, score] = (raw as unknown[]).map(String);
    return { member: member ?? "", score: Number(score?.replace("inf", "Infinity")) };
  },
});
