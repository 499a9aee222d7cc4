import { isReplyError } from "../base/errors.js";
import type { RedisLike } from "./client.js";

/** A command of ioredis, with the members that write and end it. They are the same in all versions. */
interface Command {
  reject(error: unknown): void;
  toWritable(stream: unknown): string | Buffer;
}

/** ioredis. Other clients don't have this method, and never send a command again. */
interface Sender extends RedisLike {
  sendCommand(command: Command, ...others: unknown[]): Promise<unknown>;
}

/** A command in flight that is never sent again. */
interface Sent {
  readonly replying: Promise<unknown>;
  /**
   * Call this when the connection is lost, and the reply with it. The command then rejects immediately instead of after a
   * reconnection.
   */
  readonly lose: () => void;
}

const ping = "*1\r\n$4\r\nPING\r\n";

/**
 * Sends commands that ioredis must not send again after their reply was lost. By default a single-server client repeats such
 * commands on its next connection (`autoResendUnfulfilledCommands`), and a Cluster client repeats them on another node. No option
 * exempts a single command. So the second write of a command sends a PING, whose reply is dropped. A command that the server
 * refused is sent again unchanged.
 */
export class SendingOnce {
  readonly #client: Sender;
  /**
   * A view of the client; the client itself is unchanged. Each call through this object passes its command to `#guarded`, even with
   * automatic pipelining.
   */
  readonly #view: RedisLike;
  #lose: () => void = () => undefined;

  private constructor(client: Sender) {
    this.#client = client;
    const sendCommand: Sender["sendCommand"] = (command, ...others) => this.#guarded(command, others);
    this.#view = Object.create(client, {
      sendCommand: { value: sendCommand },
      isPipeline: { value: true },
    }) as RedisLike;
  }

  /** Undefined if the client is not ioredis. */
  static on(client: RedisLike): SendingOnce | undefined {
    return "sendCommand" in client ? new SendingOnce(client as Sender) : undefined;
  }

  /** Pass a function that calls the command's method on the client it receives. */
  send(send: (client: RedisLike) => Promise<unknown>): Sent {
    const replying = send(this.#view);
    return { replying, lose: this.#lose };
  }

  #guarded(command: Command, others: readonly unknown[]): Promise<unknown> {
    const { reject, toWritable } = command;
    const lose = (): void => reject.call(command, new Error("Connection is closed."));
    let isWritten = false;
    command.toWritable = (stream) => {
      if (isWritten) {
        lose();
        return ping;
      }
      isWritten = true;
      return toWritable.call(command, stream);
    };
    const replying = this.#client.sendCommand(command, ...others);
    // By now, a Cluster client has replaced it with one that sends the command again.
    const rejectOrRepeat = command.reject;
    command.reject = (error) => {
      if (isReplyError(error)) isWritten = false;
      (isWritten ? reject : rejectOrRepeat).call(command, error);
    };
    this.#lose = lose;
    return replying;
  }
}
