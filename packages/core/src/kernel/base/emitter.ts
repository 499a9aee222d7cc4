import { EventEmitter } from "node:events";
import { ownContext } from "./async-context.js";

/** Mutable because TypeScript accepts one listener for several events only if none of them has readonly arguments. */
type Listener<Args extends readonly unknown[]> = (...args: [...Args]) => void;

/**
 * Typed events of one object. Without a listener, nothing is thrown or printed, not even for `error`. A listener that throws does
 * not affect the object: its error becomes an uncaught exception.
 */
export class TypedEmitter<Events extends Record<keyof Events, readonly unknown[]>> {
  readonly #emitter = new EventEmitter();

  constructor() {
    // Eleven listeners are not a leak, and a library must not print warnings.
    this.#emitter.setMaxListeners(0);
  }

  /** Calls `listener` at every `event`, in the async context of this call. */
  on<Name extends keyof Events & string>(event: Name, listener: Listener<Events[Name]>): this {
    return this.#add(event, listener, false);
  }

  /** Removes a listener. */
  off<Name extends keyof Events & string>(event: Name, listener: Listener<Events[Name]>): this {
    this.#emitter.off(event, listener as never);
    return this;
  }

  /** Calls `listener` at the next `event` only, in the async context of this call. */
  once<Name extends keyof Events & string>(event: Name, listener: Listener<Events[Name]>): this {
    return this.#add(event, listener, true);
  }

  protected emit<Name extends keyof Events & string>(event: Name, ...args: Events[Name]): void {
    for (const listener of this.#emitter.rawListeners(event))
      try {
        Reflect.apply(listener, this, args);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
  }

  #add<Name extends keyof Events & string>(event: Name, listener: Listener<Events[Name]>, isOnce: boolean): this {
    const inOwnContext = ownContext();
    const own = (...args: Events[Name]): void => {
      if (isOnce) this.#emitter.off(event, own as never);
      inOwnContext(() => Reflect.apply(listener, this, args));
    };
    // By this field an emitter finds the listener that `off()` names.
    this.#emitter.on(event, Object.assign(own, { listener }) as never);
    return this;
  }

  protected hasListeners(event: keyof Events & string): boolean {
    return this.#emitter.listenerCount(event) > 0;
  }
}
