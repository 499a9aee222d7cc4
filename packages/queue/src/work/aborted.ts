const names: ReadonlySet<unknown> = new Set(["AbortError", "CanceledError", "CancelError"]);
const codes: ReadonlySet<unknown> = new Set(["ABORT_ERR", "ERR_ABORTED", "ERR_CANCELED"]);
const mostErrors = 100;

/**
 * Whether an error reports an abort: it is the reason of the signal, has a name or code that libraries use, or one of its causes or members
 * reports an abort. Looks at up to 100 errors. Throws if an error throws when it is read.
 */
export const reportsAbort = (error: unknown, reason: unknown): boolean => {
  const found = new Set<unknown>([error]);
  for (const one of found) {
    if (one === reason) return true;
    if (Object(one) !== one) continue;
    const { name, code, cause, errors } = one as Readonly<Record<"name" | "code" | "cause" | "errors", unknown>>;
    if (names.has(name) || codes.has(code)) return true;
    for (const inner of Array.isArray(errors) ? [cause, ...(errors as unknown[]).slice(0, mostErrors)] : [cause])
      if (found.size < mostErrors) found.add(inner);
  }
  return false;
};
