import { describe, expect, it } from "vitest";
import { KitError, KitUnavailableError, KitUnknownOutcomeError } from "../src/index.js";
import { OutageReporter } from "../src/toolkit/index.js";

const away = new KitUnavailableError("no answer", "host:1");
const unknown = new KitUnknownOutcomeError("the reply was lost: the change may or may not have been made", undefined);
const refused = new KitError("KIT_NO_PERMISSION", "not allowed");

const reporting = (): { readonly reporter: OutageReporter; readonly codes: string[]; readonly errors: KitError[] } => {
  const errors: KitError[] = [];
  const codes: string[] = [];
  const reporter = new OutageReporter((error) => {
    errors.push(error);
    codes.push(error.code);
  });
  return { reporter, codes, errors };
};

describe("An outage", () => {
  it("is reported once for all loops that it stops, and once when the last of them works again", () => {
    const { reporter, codes, errors } = reporting();
    reporter.failed("waiting", unknown);
    reporter.failed("taking", away);
    reporter.failed("waiting", away);
    reporter.report(away);
    expect([codes, reporter.failure]).toEqual([["KIT_UNKNOWN_OUTCOME"], unknown]);
    reporter.worked("taking");
    expect([codes.length, reporter.failure]).toEqual([1, unknown]);
    reporter.worked("waiting");
    reporter.worked("waiting");
    expect(reporter.failure).toBeUndefined();
    expect(codes).toEqual(["KIT_UNKNOWN_OUTCOME", "KIT_RECOVERED"]);
    expect(errors[1]).toMatchObject({
      cause: unknown,
      message: expect.stringMatching(/ s\. First error: a reply was lost$/) as string,
    });
  });

  it("of another kind is reported as well, and a connection ends none but the lack of one", () => {
    const { reporter, codes } = reporting();
    reporter.failed("waiting", away);
    reporter.connected("waiting");
    reporter.failed("waiting", refused);
    reporter.connected("waiting");
    reporter.failed("waiting", refused);
    expect(codes).toEqual(["KIT_UNAVAILABLE", "KIT_RECOVERED", "KIT_NO_PERMISSION"]);
    reporter.failed("taking", away);
    reporter.report(new KitError("KIT_SERVER", "once"));
    expect(codes.slice(3)).toEqual(["KIT_UNAVAILABLE", "KIT_SERVER"]);
  });

  it("continues when its loop ends, until a command succeeds and no other loop fails", () => {
    const { reporter, codes, errors } = reporting();
    reporter.failed("renewing", away);
    reporter.ended("renewing");
    reporter.failed("taking", unknown);
    reporter.report(away);
    reporter.worked();
    expect(codes).toEqual(["KIT_UNAVAILABLE"]);
    reporter.ended("taking");
    reporter.worked("another loop");
    reporter.worked();
    expect(codes).toEqual(["KIT_UNAVAILABLE", "KIT_RECOVERED"]);
    expect(errors[1]).toMatchObject({
      cause: away,
      message: expect.stringMatching(/ s\. First error: no answer$/) as string,
    });
    reporter.failed("renewing", away);
    reporter.ended("renewing");
    reporter.worked();
    expect(codes.slice(2)).toEqual(["KIT_UNAVAILABLE", "KIT_RECOVERED"]);
  });

  it("starts also with a failure that is not tried again, if it may pass", () => {
    const { reporter, codes } = reporting();
    reporter.report(unknown);
    reporter.failed("waiting", away);
    reporter.worked("waiting");
    reporter.report(refused);
    reporter.worked();
    expect(codes).toEqual(["KIT_UNKNOWN_OUTCOME", "KIT_RECOVERED", "KIT_NO_PERMISSION"]);
  });

  it("of one key is not over since commands for others succeed", () => {
    const { reporter, codes } = reporting();
    reporter.failed("renewing", new KitError("KIT_KEY_TYPE", "another type"));
    reporter.ended("renewing");
    reporter.worked();
    expect(codes).toEqual(["KIT_KEY_TYPE"]);
  });
});
