import type { RedisArgument } from "@kit/core";

type Words<Text> = Text extends `${infer Word} ${infer Rest}` ? Word | Words<Rest> : Text;

/** Appends a record to a plan. */
type WriteRecord<Field extends string> = (
  plan: RedisArgument[],
  values: Readonly<Record<Field, RedisArgument>>,
) => void;

const recordOf = <Text extends string>(names: Text): WriteRecord<Words<Text>> => {
  const fields = names.split(" ") as Words<Text>[];
  return (plan, values) => {
    for (const field of fields) plan.push(values[field]);
  };
};

// The records of each script's plan: their fields in order, with the names that the script uses. A single field
// needs no record.

/** The head of a batch. */
export const batchHead = recordOf("keys items validUntil seq");

export const countTotal = recordOf("amount keepMs");
export const countChunk = recordOf("endsAt buckets");
export const countBucket = recordOf("bucket added");

export const mergeTotal = recordOf("keepMs maxBins slowest partials");
export const mergePartial = recordOf("windows bins bounds subjects");
export const momentNames = ["count", "mean", "m2", "min", "max", "sum", "compensation", "rest"] as const;
/** A bin, or a bound that divides one. */
export const mergeField = recordOf("field values");
export const mergeSubject = recordOf("value subject");

export const logHead = recordOf("streams keepEntries keepMs metaMs maxDistinct");
export const logEntry = recordOf("loggedAt level text fields fingerprint");
export const logWindow = recordOf("endsAt missed counts");
export const logCount = recordOf("fingerprint score sure firstAt lastAt sample");
