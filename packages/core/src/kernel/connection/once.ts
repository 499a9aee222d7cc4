import { isReplyError } from "../base/errors.js";
import type { RedisLike } from "./client.js";

/** A command of ioredis: the members that write and end it, the same in all versions. */
interface Command {
  reject(error: unknown): void;
  toWritable(stream: unknown): string | Buffer;
}

/** ioredis. Other clients do not have this method, and never send a command again. */
interface Sender extends RedisLike {
  sendCommand(command: Command, ...others: unknown[]): Promise<unknown>;
}

/** A command under way that is never sent again. */
interface Sent {
  readonly replying: Promise<unknown>;
  /** Its connection is lost, and its reply with it: rejects now instead of when the client is connected again. */
  readonly lose: () => void;
}

const ping = "*1\r\n$4\r\nPING\r\n";

/**
 * Sends commands that ioredis does not send again after their reply was lost. A single-server client repeats such commands on its
 * next connection (`autoResendUnfulfilledCommands`), a Cluster client on another node, and no option leaves out one command. So
 * what is written the second time is a PING, whose reply nobody gets. A command that the server refused goes out again as it is.
 */
export class SendingOnce {
  readonly #client: Sender;
  /** The client itself is not changed. Each call through this object hands its command to `#guarded`, also with automatic pipelining. */
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

  /** Undefined: the client is not ioredis. */
  static on(client: RedisLike): SendingOnce | undefined {
    return "sendCommand" in client ? new SendingOnce(client as Sender) : undefined;
  }

  /** `send` calls the command's method of the client that it gets. */
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
    // A Cluster client has replaced it by now, by one that sends the command again.
    const rejectOrRepeat = command.reject;
    command.reject = (error) => {
      if (isReplyError(error)) isWritten = false;
      (isWritten ? reject : rejectOrRepeat).call(command, error);
    };
    this.#lose = lose;
    return replying;
  }
}
