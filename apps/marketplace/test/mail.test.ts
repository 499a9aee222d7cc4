// The mail server of the demo, in a process of its own, and the page of its mails.
import { fork } from "node:child_process";
import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sendMail } from "../src/behind/mail.js";
import type { Mails, PartnersFacts } from "../src/behind/partners.js";
import { text } from "../src/pages/html.js";
import { mailPage } from "../src/pages/mail.js";

describe("The mails", () => {
  const program = new URL("../dist/partners.js", import.meta.url);
  const child = fork(program, { stdio: ["ignore", "ignore", "inherit", "ipc"] });
  let partners: PartnersFacts;
  beforeAll(async () => {
    const ready = once(child, "message") as Promise<[{ facts: PartnersFacts }]>;
    child.send({ kind: "start", task: null });
    [{ facts: partners }] = await ready;
  });
  afterAll(() => void child.kill());

  it("come in pages, newest first, and each page leads to the others", async () => {
    const signal = AbortSignal.timeout(60_000);
    for (let n = 1; n <= 45; n++)
      await sendMail(
        partners.smtpPort,
        { id: `m${n}`, to: "u1@bazaar.example", subject: `Mail ${n}`, text: "" },
        signal,
      );
    const page = async (from: number): Promise<Mails> =>
      (await (await fetch(`${partners.origin}/mails?from=${from}&count=20`)).json()) as Mails;
    const [first, last] = [await page(0), await page(40)];
    expect([first.total, first.mails.length, first.mails[0]?.subject]).toEqual([45, 20, "Mail 45"]);
    expect(last.mails.map(({ subject }) => subject)).toEqual(["Mail 5", "Mail 4", "Mail 3", "Mail 2", "Mail 1"]);
    const shown = text(mailPage(last.mails, { page: 3, pages: 3, hasMore: false }));
    expect(shown).toContain('href="/mail?page=2"');
    expect(shown).not.toContain('href="/mail?page=4"');
  });

  it("are shown to no page whose name was bent to point here", async () => {
    const asked = get(`${partners.origin}/mails?from=0&count=1`, { headers: { host: "evil.example" } });
    const [response] = (await once(asked, "response")) as [IncomingMessage];
    response.resume();
    expect(response.statusCode).toBe(421);
  });
});
