import { EventEmitter } from "node:events";

/** Mutable: TypeScript accepts one listener for several events only if none of them has readonly arguments. */
type Listener<Args extends readonly unknown[]> = (...args: [...Args]) => void;

/**
 * Typed events of one object. Without a listener nothing is thrown (not for `error` either) and nothing prints. A listener
 * that throws does not affect the object: its error becomes an uncaught exception.
 */
export class TypedEmitter<Events extends Record<keyof Events, readonly unknown[]>> {
  readonly #emitter = new EventEmitter();

  constructor() {
    // Eleven listeners are no leak, and a library prints no warnings.
    this.#emitter.setMaxListeners(0);
  }

  /** Calls `listener` at every `event`. */
  on<Name extends keyof Events & string>(event: Name, listener: Listener<Events[Name]>): this {
    this.#emitter.on(event, listener as never);
    return this;
  }

  /** Removes a listener. */
  off<Name extends keyof Events & string>(event: Name, listener: Listener<Events[Name]>): this {
    this.#emitter.off(event, listener as never);
    return this;
  }

  /** Calls `listener` at the next `event` only. */
  once<Name extends keyof Events & string>(event: Name, listener: Listener<Events[Name]>): this {
    this.#emitter.once(event, listener as never);
    return this;
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

  protected hasListeners(event: keyof Events & string): boolean {
    return this.#emitter.listenerCount(event) > 0;
  }
}
