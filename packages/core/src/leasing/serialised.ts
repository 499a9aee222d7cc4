import type { ResolvedLease } from "./options.js";

/** A lease that is passed between processes. */
export interface SerialisedLease extends ResolvedLease {
  readonly kit: string;
  readonly layout: 1;
  readonly name: string;
  readonly token: string;
}

/** The serialized form of a lease, with the fields of its kind. */
type SavedLease<Particulars> = SerialisedLease & Particulars;

/**
 * Reads the text of a serialized lease of this kind. `isWhole`: whether the kind's own fields are present.
 *
 * @throws {TypeError} the text is not a lease of this kind.
 */
export const parseLease = <Particulars extends object>(
  what: string,
  text: string,
  isWhole: (saved: Partial<Record<keyof Particulars, unknown>>) => boolean,
): SavedLease<Particulars> => {
  let saved: Partial<SerialisedLease> | null;
  try {
    saved = JSON.parse(text) as Partial<SerialisedLease> | null;
  } catch {
    // The error below leaves the text out: it may hold a token.
    saved = null;
  }
  if (
    saved?.kit !== what ||
    saved.layout !== 1 ||
    typeof saved.name !== "string" ||
    typeof saved.token !== "string" ||
    !isWhole(saved as Partial<Record<keyof Particulars, unknown>>)
  )
    throw new TypeError(
      `Expected a string from \`serialise()\` or \`handOver()\` of a ${what}, made by this major version`,
    );
  // A field that the text lacks must not be found on a prototype either.
  return Object.assign(Object.create(null) as SavedLease<Particulars>, saved);
};
