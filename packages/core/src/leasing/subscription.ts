import type { Inbox } from "../kernel/index.js";

/** Receives the pushes for one acquire, and keeps those that arrive before it has a listener. */
export class Subscription {
  readonly token: string;
  /** The channel that the acquire sent when it was queued. */
  channel: string;
  readonly #inbox: Inbox;
  #early: string[] | undefined;

  constructor(inbox: Inbox, token: string, channel: string) {
    this.#inbox = inbox;
    this.token = token;
    this.channel = channel;
    // A server that has `-` or `+` for this waiter does not push until a heartbeat sends the channel.
    if (channel === inbox.channel) inbox.expect(token, (payload) => void (this.#early ??= []).push(payload));
  }

  /** From now on `listener` receives the pushes, starting with those that arrived early. */
  listen(listener: (payload: string) => void): void {
    this.#inbox.expect(this.token, listener);
    const early = this.#early;
    this.#early = undefined;
    for (const payload of early ?? []) listener(payload);
  }

  end(): void {
    this.#inbox.forget(this.token);
  }
}
