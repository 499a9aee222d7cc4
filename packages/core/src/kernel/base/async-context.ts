import { AsyncResource } from "node:async_hooks";

// An AsyncLocalStorage keeps what a request stored in everything that is created during it: timers, sockets, promises. So user code
// that a timer of ours calls would see the store of another request, and what lives long would keep the store of the first for ever.

/** The async context in which this module was loaded. */
const root = new AsyncResource("kit");

/** Creates what outlives the call in which it is created, such as a connection or a shared timer, outside of that call's async context. */
export const detached = <T>(create: () => T): T => root.runInAsyncScope(create);

/** A timer that serves more than the call in which it is set. */
export const detachedTimeout = (run: () => void, ms: number): NodeJS.Timeout => detached(() => setTimeout(run, ms));

/** Remembers the async context of the user's call. The function that it returns runs user code there. */
export const ownContext = (): (<T>(run: () => T) => T) => {
  const caller = new AsyncResource("kit");
  return (run) => caller.runInAsyncScope(run);
};

/** Its listeners run in the async context of the call that made it, wherever it is aborted. For a signal that user code gets. */
export class OwnAbortController extends AbortController {
  readonly #inOwnContext = ownContext();

  override abort(reason?: unknown): void {
    this.#inOwnContext(() => super.abort(reason));
  }
}
