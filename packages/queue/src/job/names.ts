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
