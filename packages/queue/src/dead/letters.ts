import type { QueueCommands } from "../store/commands.js";
import { dataOf, type DeadLetter, factsOf } from "./facts.js";
import { letters, maxRedriven, redrive, type StoredLetter } from "./scripts.js";

const letterOf = ({ id, diedAt, blob, record }: StoredLetter): DeadLetter => ({
  ...{ id, diedAt, data: dataOf(blob) },
  ...factsOf(blob, record),
});

/** The maximum number of letters that one call reads. */
const maxLetters = 50;

/** Where a page ended. */
type Position = Pick<DeadLetter, "id" | "diedAt">;

/**
 * Reads letters that died before `position`, newest first. Letters of the same time come in descending order of ids, as in the sorted set.
 */
export const readLetters = async (
  commands: QueueCommands,
  position: Position | undefined,
  count: number,
  name: string,
): Promise<DeadLetter[]> => {
  const found: DeadLetter[] = [];
  let last = position;
  // Each page starts with the letters of the time at which the previous page ended. There may be many.
  for (let [start, again] = [0, position ? 1 : 0]; ; again = 2 * again + 1) {
    const latest = last?.diedAt;
    const wanted = Math.min(maxLetters, count - found.length + again);
    const page = await commands.run(letters, { latest: latest ?? "+inf", start, name, count: wanted });
    for (const letter of page) {
      const isOlder = !last || letter.diedAt < last.diedAt;
      if (!isOlder && (letter.diedAt > last!.diedAt || compare(letter.id, last!.id) >= 0)) continue;
      last = letter;
      if (letter.blob.length > 0 && found.push(letterOf(letter)) === count) return found;
    }
    const end = page.at(-1);
    if (!end) return found;
    // Letters of one instant may fill a page.
    start = end.diedAt === latest ? start + page.length : 0;
  }
};

const compare = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

/** Moves or drops the letters with these ids. Without ids, it does so with all current letters. Resolves with their number. */
export const moveLetters = async (
  commands: QueueCommands,
  verb: "redrive" | "drop",
  ids: readonly string[] | undefined,
  spreadMs: number = 0,
): Promise<number> => {
  let total = 0;
  // Without ids, only jobs that were dead at the first call: otherwise, jobs that die again could keep this running forever.
  for (let start = 0, begun = ""; ; start += maxRedriven) {
    const some = ids?.slice(start, start + maxRedriven).join("\n");
    if (some === "") return total;
    const reply = await commands.run(redrive, { verb, ids: some ?? "", begun, spreadMs });
    total += reply.moved;
    ({ begun } = reply);
    if (!ids && reply.moved < maxRedriven) return total;
  }
};
