import { AsyncResource } from "node:async_hooks";

// An AsyncLocalStorage keeps what a request stored in everything that is created during it: timers, sockets, promises. So user code
// that a timer of kit calls would see the store of another request, and long-lived objects would keep the first request's store for ever.

/** The async context in which this module was loaded. */
const root = new AsyncResource("kit");

/**
 * Runs `create` outside the caller's async context. Use it to create objects that outlive the call, such as a connection or a
 * shared timer.
 */
export const detached = <T>(create: () => T): T => root.runInAsyncScope(create);

/** A timer that is not only for the call that sets it. */
export const detachedTimeout = (run: () => void, ms: number): NodeJS.Timeout => detached(() => setTimeout(run, ms));

/** Stores the async context of the user's call. The returned function runs user code in that context. */
export const ownContext = (): (<T>(run: () => T) => T) => {
  const caller = new AsyncResource("kit");
  return (run) => caller.runInAsyncScope(run);
};

/**
 * For a signal that user code receives. Its listeners run in the async context in which the controller was created, wherever it is
 * aborted.
 */
export class OwnAbortController extends AbortController {
  readonly #inOwnContext = ownContext();

  override abort(reason?: unknown): void {
    this.#inOwnContext(() => super.abort(reason));
  }
}
