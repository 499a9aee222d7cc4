import { idText } from "./ids.js";

/**
 * The name of a job as headers store it, all ASCII.
 *
 * @throws {RangeError} `name` is not a valid job name.
 */
export const encodedName = (name: string): string => {
  if (typeof name !== "string" || name === "" || name.length > 128 || /\p{Surrogate}/u.test(name))
    throw new RangeError("Expected the name of a job to be well-formed text of 1 to 128 characters");
  return encodeURIComponent(name);
};

/**
 * A group as headers and keys store it. It has no `!`, which ends it in an entry.
 *
 * @throws {TypeError | RangeError} `group` is not a valid group.
 */
export const encodedGroup = (name: string, group: string): string =>
  encodeURIComponent(idText(name, group)).replaceAll("!", "%21");
