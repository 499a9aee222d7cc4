import { connect } from "node:net";
import { createInterface } from "node:readline";

export interface OutgoingMail {
  /** The same in every attempt, so that the receiver can recognise a repeat. */
  readonly id: string;
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

const isPlain = (text: string): boolean => !/[\r\n<>]/.test(text);

/** Sends a mail by SMTP. Rejects with the server's reply if it refuses the mail. */
export const sendMail = async (
  port: number,
  { id, to, subject, text }: OutgoingMail,
  signal: AbortSignal,
): Promise<void> => {
  if (!isPlain(to) || !isPlain(subject)) throw new TypeError("A line break in a mail header");
  const socket = connect(port, "127.0.0.1");
  const abort = (): unknown => socket.destroy(signal.reason as Error);
  signal.addEventListener("abort", abort, { once: true });
  try {
    const head = `Message-ID: <${id}@bazaar.example>\r\nFrom: shop@bazaar.example\r\nTo: ${to}\r\nSubject: ${subject}`;
    const body = text.replace(/\r?\n/g, "\r\n").replace(/^\./gm, "..");
    const steps = [
      ["HELO bazaar", "2"],
      ["MAIL FROM:<shop@bazaar.example>", "2"],
      [`RCPT TO:<${to}>`, "2"],
      ["DATA", "3"],
      [`${head}\r\n\r\n${body}\r\n.`, "2"],
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
