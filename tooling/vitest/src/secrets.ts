import { tracingChannel } from "node:diagnostics_channel";

/** The form of a token. */
export const tokenPattern: RegExp = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;

/** Collects the tokens in all commands that a client sends from now on. */
export const tappedTokens = (client: { call(...args: never[]): unknown }): Set<string> => {
  const tokens = new Set<string>();
  const call = client.call.bind(client);
  Object.assign(client, {
    call: (...args: never[]) => {
      for (const [token] of args.join(" ").matchAll(tokenPattern)) tokens.add(token);
      return call(...args);
    },
  });
  return tokens;
};

interface Emitter<Event extends string> {
  on(event: Event, listener: (...facts: readonly unknown[]) => void): unknown;
}

/** Collects all events of an object and all messages of diagnostics channels, until the test ends. */
export const recordTold = <Event extends string>(
  redis: { defer(close: () => unknown): void },
  emitter: Emitter<Event>,
  events: readonly Event[],
  channels: readonly string[],
): object[] => {
  const told: object[] = [];
  for (const event of events) emitter.on(event, (...facts) => told.push(facts));
  for (const channelName of channels) {
    const channel = tracingChannel<object, object>(channelName);
    // The result belongs to the caller, who needs its token.
    const keep = (context: object): unknown => told.push({ ...context, result: undefined });
    const subscribers = { start: keep, end: keep, asyncStart: keep, asyncEnd: keep, error: keep };
    channel.subscribe(subscribers);
    redis.defer(() => channel.unsubscribe(subscribers));
  }
  return told;
};

/** Leaves out `op`: for an unknown outcome it is the token, by which the caller can repeat the call. */
export const withoutOp = <T extends object>(told: T): T => {
  for (let error of [told, ...Object.values(told)] as unknown[])
    for (; error instanceof Error; error = error.cause)
      if (error.name === "KitUnknownOutcomeError") Object.defineProperty(error, "op", { value: undefined });
  return told;
};
