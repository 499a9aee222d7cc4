import { defineScript } from "@kit/core";
import readNotesSource from "./readNotes.lua";

/** Notes of one job, as they are stored. */
export interface StoredNotes {
  /** JSON. Empty if there is none. The same applies to `checkpoint`. */
  readonly progress: string;
  /** When it was reported, in epoch ms of the server's clock. */
  readonly progressAt: number;
  readonly checkpoint: string;
  /** How many lines are kept. */
  readonly kept: number;
  /** How many lines were dropped, because there were too many. */
  readonly dropped: number;
  readonly lines: readonly { readonly number: number; readonly at: number; readonly text: string }[];
}

export const noNotes: StoredNotes = { progress: "", progressAt: 0, checkpoint: "", kept: 0, dropped: 0, lines: [] };

/** Reads notes of a job. */
export const readNotes = defineScript({
  name: "queue.readNotes",
  source: readNotesSource,
  keys: ["notes"],
  args: ["of", "after", "count"],
  readonly: true,
  reply: (raw): StoredNotes => {
    const [progress, progressAt, checkpoint, first, next, from, ...lines] = (raw as unknown[]).map(String);
    if (progress === undefined || checkpoint === undefined) return noNotes;
    return {
      ...{ progress, progressAt: Number(progressAt), checkpoint },
      kept: Number(next) - Number(first),
      dropped: Number(first) - 1,
      lines: lines.map((line, index) => {
        const space = line.indexOf(" ");
        return { number: Number(from) + index, at: Number(line.slice(0, space)), text: line.slice(space + 1) };
      }),
    };
  },
});
