// The partners of the shop, in a process of their own: a payment provider that accepts five payments at once, a printer
// that jams, and a mail server that stores its mails.
import { once } from "node:events";
import { createServer as createHttpServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { seedOf } from "../seed/random.js";
import { paymentPermits } from "../common/tools.js";
import { serveMember } from "./member.js";

export interface PartnersFacts {
  readonly origin: string;
  readonly smtpPort: number;
}

export interface Mail {
  readonly at: number;
  readonly id: string;
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

/** Some of the kept mails, newest first. */
export interface Mails {
  readonly total: number;
  readonly mails: readonly Mail[];
}

export interface PartnersState {
  readonly atOnce: number;
  readonly peak: number;
  /** Payments that were refused because five were under way. */
  readonly refused: number;
  readonly charges: number;
  /** Requests for a payment that was already made. Each got the first result. */
  readonly repeats: number;
  readonly mailCount: number;
}

const keptMails = 200;
const keptCharges = 20_000;
const jams = 5;

interface Charge {
  tries: number;
  isMade: boolean;
}

class Partners {
  readonly #charges = new Map<string, Charge>();
  readonly #sheets = new Map<string, number>();
  readonly mails: Mail[] = [];
  #atOnce = 0;
  #peak = 0;
  #refused = 0;
  #made = 0;
  #repeats = 0;
  #mailCount = 0;

  get state(): PartnersState {
    return {
      atOnce: this.#atOnce,
      peak: this.#peak,
      refused: this.#refused,
      charges: this.#made,
      repeats: this.#repeats,
      mailCount: this.#mailCount,
    };
  }

  keep(mail: Mail): void {
    this.#mailCount++;
    // A worker that died after sending repeats the mail with the same id.
    if (this.mails.some(({ id }) => id === mail.id)) return;
    this.mails.unshift(mail);
    this.mails.splice(keptMails);
  }

  /** Takes 250 to 1,000 ms. One order in eight fails at its first try. */
  async charge(order: string): Promise<{ status: number; text: string }> {
    if (this.#atOnce >= paymentPermits) {
      this.#refused++;
      return { status: 429, text: "five payments are running" };
    }
    this.#atOnce++;
    this.#peak = Math.max(this.#peak, this.#atOnce);
    try {
      let charge = this.#charges.get(order);
      if (!charge) this.#charges.set(order, (charge = { tries: 0, isMade: false }));
      if (this.#charges.size > keptCharges) this.#charges.delete(this.#charges.keys().next().value ?? "");
      charge.tries++;
      const dice = seedOf(order);
      await sleep(250 + (dice % 750));
      if (charge.isMade) {
        this.#repeats++;
        return { status: 200, text: "already charged" };
      }
      if (dice % 8 === 0 && charge.tries === 1) return { status: 502, text: "the card network did not reply" };
      charge.isMade = true;
      this.#made++;
      return { status: 200, text: "charged" };
    } finally {
      this.#atOnce--;
    }
  }

  charged(order: string): { tries: number; made: number } {
    const { tries, isMade } = this.#charges.get(order) ?? { tries: 0, isMade: false };
    return { tries, made: isMade ? 1 : 0 };
  }

  print(sheet: string): { status: number; text: string } {
    const tries = (this.#sheets.get(sheet) ?? 0) + 1;
    this.#sheets.set(sheet, tries);
    return tries <= jams ? { status: 503, text: "the printer has jammed" } : { status: 200, text: "printed" };
  }
}

const partners = new Partners();

const serveHttp = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://partners");
  const answer = (status: number, value: unknown): void => {
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
  };
  const plain = ({ status, text }: { status: number; text: string }): void => answer(status, { text });
  const subject = searchParams.get("of") ?? "";
  // As in the shop itself: another name means that a foreign page's name was bent to point at this machine.
  if (!/^127\.0\.0\.1:\d+$/.test(request.headers.host ?? "")) return answer(421, {});
  if (pathname === "/state") answer(200, partners.state);
  else if (pathname === "/mails") {
    const [from, count] = [Number(searchParams.get("from")), Number(searchParams.get("count"))];
    answer(200, { total: partners.mails.length, mails: partners.mails.slice(from, from + count) } satisfies Mails);
  } else if (pathname === "/charged") answer(200, partners.charged(subject));
  else if (request.method === "POST" && pathname === "/charge") plain(await partners.charge(subject));
  else if (request.method === "POST" && pathname === "/print") plain(partners.print(subject));
  else answer(404, {});
};

const talkSmtp = async (socket: Socket): Promise<void> => {
  const say = (line: string): boolean => socket.write(`${line}\r\n`);
  let to = "";
  let lines: string[] | undefined;
  say("220 sink");
  for await (const line of createInterface(socket)) {
    if (lines && line !== ".") lines.push(line.startsWith(".") ? line.slice(1) : line);
    else if (lines) {
      const end = lines.indexOf("");
      const head = lines.slice(0, end);
      const field = (name: string): string =>
        head
          .find((one) => one.toLowerCase().startsWith(`${name}:`))
          ?.slice(name.length + 1)
          .trim() ?? "";
      const text = lines.slice(end + 1).join("\n");
      partners.keep({ at: Date.now(), id: field("message-id"), to, subject: field("subject"), text });
      lines = undefined;
      say("250 kept");
    } else if (line === "DATA") {
      lines = [];
      say("354 go on");
    } else if (line === "QUIT") {
      say("221 bye");
      socket.end();
    } else {
      const recipient = /^RCPT TO:<(.*)>$/.exec(line)?.[1];
      if (recipient !== undefined) to = recipient;
      say("250 ok");
    }
  }
};

type PartnersDuty = { facts: PartnersFacts; stop: () => Promise<void> };

serveMember(async (_: null, __, before?: PartnersFacts): Promise<PartnersDuty> => {
  const http: Server = createHttpServer((request, response) => {
    serveHttp(request, response).catch(() => response.destroy());
  });
  const smtp = createTcpServer((socket) => void talkSmtp(socket).catch(() => socket.destroy()));
  http.listen(before ? Number(new URL(before.origin).port) : 0, "127.0.0.1");
  smtp.listen(before?.smtpPort ?? 0, "127.0.0.1");
  await Promise.all([once(http, "listening"), once(smtp, "listening")]);
  const portOf = (server: { address(): unknown }): number => (server.address() as AddressInfo).port;
  return {
    facts: { origin: `http://127.0.0.1:${portOf(http)}`, smtpPort: portOf(smtp) },
    stop: () => {
      http.close();
      smtp.close();
      return Promise.resolve();
    },
  };
});
