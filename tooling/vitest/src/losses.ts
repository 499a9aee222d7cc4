import { createHash } from "node:crypto";

/** The part of a `FaultProxy` that loses replies. */
interface Proxy {
  readonly down: { hole: boolean };
  heal(): void;
}

/** The call of a script on a client, which the server knows. */
interface Sent {
  readonly client: { call(...args: never[]): unknown };
  readonly script: { readonly source: string };
}

/**
 * The replies behind a proxy are lost, from now on or from when a script is sent, until `attempt` has failed once: a try of `call` for
 * `retry()` of core. `tries()`: how many there were.
 */
export const losingOnce = <T>(
  proxy: Proxy,
  call: () => Promise<T>,
  sent?: Sent,
): { readonly attempt: () => Promise<T>; readonly tries: () => number } => {
  if (sent) {
    const { client, script } = sent;
    const send = client.call.bind(client);
    const hash = createHash("sha1").update(script.source).digest("hex");
    const watched = (...args: readonly unknown[]): unknown => {
      if (args[1] === hash) {
        Object.assign(client, { call: send });
        proxy.down.hole = true;
      }
      return send(...(args as never[]));
    };
    Object.assign(client, { call: watched });
  } else {
    proxy.down.hole = true;
  }
  let tries = 0;
  const attempt = async (): Promise<T> => {
    tries++;
    try {
      return await call();
    } catch (error) {
      proxy.heal();
      throw error;
    }
  };
  return { attempt, tries: () => tries };
};
