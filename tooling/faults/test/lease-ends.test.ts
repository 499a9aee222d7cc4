import { describe, expect, it } from "vitest";

interface Ends {
  readonly confirmRenewals: (
    args: readonly string[],
    answer: readonly number[],
    sentAt: number,
    tokenOf: (record: string) => string,
  ) => void;
  readonly follow: (token: string, listener: () => void) => () => number | undefined;
}

const ends = (await import(new URL("../src/lab/lease-ends.mjs", import.meta.url).href)) as Ends;

const endOf = (token: string): number | undefined => ends.follow(token, () => undefined)();

describe("confirmRenewals", () => {
  it("takes the end from a reply that extended the lease, and none from a look-up or a refusal", () => {
    // The reply begins with the clock.
    ends.confirmRenewals(["300 held", "0 looked-up", "300 lost"], [7, 1, 1, 0], 1_000, (record) => record);
    expect(["held", "looked-up", "lost"].map(endOf)).toEqual([1_300, undefined, undefined]);
  });
});
