import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { createInterface } from "node:readline";

/** One mail. `id` is the same in every attempt, so that the receiver can recognise a repeat. */
export interface Mail {
  readonly id: string;
  readonly to: string;
  readonly text: string;
}

/** A mail server on loopback that keeps what it gets, and can be told to refuse. */
export class SmtpSink {
  readonly mails: string[] = [];
  /** How many of the next mails it refuses for the time being. */
  refuseNext = 0;
  readonly #server: Server = createServer((socket) => void this.#talk(socket).catch(() => socket.destroy()));

  static async start(): Promise<SmtpSink> {
    const sink = new SmtpSink();
    sink.#server.listen(0, "127.0.0.1");
    await once(sink.#server, "listening");
    return sink;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    this.#server.close();
    await once(this.#server, "close");
  }

  async #talk(socket: Socket): Promise<void> {
    const say = (line: string): boolean => socket.write(`${line}\r\n`);
    let body: string[] | undefined;
    say("220 sink");
    for await (const line of createInterface(socket)) {
      if (body && line !== ".") body.push(line);
      else if (body) {
        this.mails.push(body.join("\n"));
        body = undefined;
        say("250 kept");
      } else if (line === "DATA" && this.refuseNext > 0) {
        this.refuseNext--;
        say("451 try again later");
      } else if (line === "DATA") {
        body = [];
        say("354 go on");
      } else if (line === "QUIT") {
        say("221 bye");
        socket.end();
      } else say("250 ok");
    }
  }
}

/** Sends a mail. Rejects with the words of the server if it does not take it. */
export const sendMail = async (port: number, { id, to, text }: Mail, signal: AbortSignal): Promise<void> => {
  const socket = connect(port, "127.0.0.1");
  const abort = (): unknown => socket.destroy(signal.reason as Error);
  signal.addEventListener("abort", abort, { once: true });
  try {
    const steps = [
      ["HELO shop", "2"],
      ["MAIL FROM:<shop@example.org>", "2"],
      [`RCPT TO:<${to}>`, "2"],
      ["DATA", "3"],
      // A line that is only a dot would end the mail.
      [`Message-ID: <${id}@shop>\r\n\r\n${text.replace(/^\./gm, "..")}\r\n.`, "2"],
      ["QUIT", "2"],
    ] as const;
    let [next, expected] = [0, "2"];
    for await (const line of createInterface(socket)) {
      if (!line.startsWith(expected)) throw new Error(line);
      const step = steps[next++];
      if (!step) return;
      socket.write(`${step[0]}\r\n`);
      [, expected] = step;
    }
    throw new Error("The mail server hung up");
  } finally {
    signal.removeEventListener("abort", abort);
    socket.destroy();
  }
};
