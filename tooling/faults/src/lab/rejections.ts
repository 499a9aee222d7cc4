const unhandled: string[] = [];

/** Notes a rejection of this process that nobody handled: it fails the run in which it is found, instead of ending all of them. */
export const noteRejection = (reason: unknown): void => {
  unhandled.push(`the lab: ${reason instanceof Error ? (reason.stack ?? reason.message) : String(reason)}`);
};

/** The rejections since the last call. */
export const takeRejections = (): string[] => unhandled.splice(0);
