import { momentNames } from "../store/scripts/records.js";
import { addMoments, type Moments, momentsOf, noMoments } from "./moments.js";
import { Sketch } from "./sketch.js";
import { Summary } from "./summary.js";

/** The summary of the values in several stored hashes. */
export const merged = (hashes: readonly ReadonlyMap<string, string>[]): Summary => {
  const { moments, sketch } = mergedParts(hashes);
  return new Summary(moments, sketch);
};

export const mergedParts = (hashes: readonly ReadonlyMap<string, string>[]): { moments: Moments; sketch: Sketch } => {
  const moments = noMoments();
  const sketch = new Sketch();
  for (const hash of hashes) {
    if (!hash.has("count")) continue;
    const stored = momentsOf(momentNames.map((name) => hash.get(name)));
    addMoments(moments, stored);
    const own = new Sketch();
    for (const [field, value] of hash) own.addField(field, Number(value));
    own.endFields(stored.min);
    sketch.absorb(own);
  }
  return { moments, sketch };
};
