import { EventEmitter } from "node:events";

export type Listener = (...args: unknown[]) => void;

/** An emitter that listens to a node-redis client only while it has listeners itself. */
export abstract class Listening extends EventEmitter {
  #stop: (() => void) | undefined;

  /** Starts to listen. Returns a function that stops this. */
  protected abstract listen(): () => void;

  get isListening(): boolean {
    return this.#stop !== undefined;
  }

  override on(event: string, listener: Listener): this {
    this.#stop ??= this.listen();
    return super.on(event, listener);
  }

  override off(event: string, listener: Listener): this {
    super.off(event, listener);
    if (this.eventNames().length > 0) return this;
    this.#stop?.();
    this.#stop = undefined;
    return this;
  }

  /** Emits an error only if there is a listener: otherwise it would end the process. */
  protected report(error: unknown): void {
    if (this.listenerCount("error") > 0) this.emit("error", error);
  }
}

/** Adds listeners to a node-redis client. Returns a function that removes them. */
export const listenTo = (
  client: { on(event: string, listener: Listener): unknown; off(event: string, listener: Listener): unknown },
  listeners: Readonly<Record<string, (...args: never[]) => void>>,
): (() => void) => {
  const all = Object.entries(listeners) as [string, Listener][];
  for (const [event, listener] of all) client.on(event, listener);
  return () => all.forEach(([event, listener]) => client.off(event, listener));
};
