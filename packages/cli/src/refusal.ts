import { KitError } from "@kit/core";
import { isForbidden } from "@kit/core/toolkit";

/** Whether the server refuses a command to this user. Some commands are sent without core, and their errors have no code. */
export const isRefusal = (error: unknown): error is Error =>
  KitError.is(error) ? error.code === "KIT_NO_PERMISSION" : isForbidden(error);

/** The same error with a code and with the page of the rights, if it is a refusal. */
export const withRights = (error: unknown): unknown => {
  if (!isRefusal(error)) return error;
  const text = KitError.is(error)
    ? error.message
    : `The server rejected the command: ${error.message.replace(/^(?:NOPERM|ERR) |,? with args beginning with:.*/gs, "")}`;
  return new KitError("KIT_NO_PERMISSION", `${text}. For the required permissions: kit help permissions`);
};
