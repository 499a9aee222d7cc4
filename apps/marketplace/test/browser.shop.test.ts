// In a browser: searching, buying, selling and talking, as visitors do it.
import { eventually, FaultProxy } from "@kit/testing";
import { expect, inject, it } from "vitest";
import { ask } from "../src/common/http-client.js";
import { buySomething, fault, firstItem, hears, inBrowser, press, signIn, stepMs, useBrowser } from "./browser.js";
import { Visitor } from "./shop.js";

inBrowser("A visitor with a browser", () => {
  const shop = { origin: inject("full") };
  const open = useBrowser(() => shop);

  it.each(["Buy with the lock", "Buy optimistically"])("a visitor buys: %s", async (button) => {
    const here = await open();
    const { page, complaints, close } = here;
    await signIn(here);
    await buySomething(here, "books", button);
    expect(await page.textContent(".notice.good")).toMatch(/^You bought .+ for £/);
    await page.click(".summary p a");
    expect(await page.textContent(".seller")).toBe("You own this item.");
    expect(complaints).toEqual([]);
    await close();
  });

  it("an order's jobs are done before the visitor's eyes, and its receipt arrives", async () => {
    const here = await open();
    const { page, complaints, close } = here;
    await signIn(here);
    await buySomething(here, "toys");
    await eventually(async () => expect(await page.locator(".waterfall .mark.good").count()).toBe(5), {
      timeoutMs: stepMs,
    });
    expect(await page.locator(".flow .done").count()).toBe(5);
    const order = new URL(page.url()).pathname.slice("/order/".length);
    await page.click(".twin summary");
    expect(await page.textContent(".twin table")).toMatch(/charge\s*got a permit\s*one of 5 permits/);
    await page.goto("/mail");
    await page.locator(`.mails b:text-is("Receipt for order ${order}")`).waitFor();
    expect(complaints).toEqual([]);
    await close();
  });

  it("buyer and seller talk: the message is there within a second, unread is counted, seen is told", async () => {
    const buyer = await open();
    await signIn(buyer);
    await buySomething(buyer, "lamps");
    const path = new URL(buyer.page.url()).pathname;
    // A person plays this seller, so the program does not answer.
    const sellerName = (await buyer.page.textContent(".summary dd:last-child bdi >> nth=-1"))?.trim() ?? "";
    const users = JSON.parse((await ask(shop.origin, `/suggest?q=${encodeURIComponent(sellerName)}`)).body) as {
      href: string;
      text: string;
    }[];
    const sellerId = users.find(({ text }) => text === sellerName)?.href.slice("/seller/".length) ?? "";
    const seller = await open();
    await signIn(seller, sellerId);

    await buyer.page.fill("#say", "Is it <b>still</b> sealed?");
    await buyer.page.click(".say button");
    await buyer.page.locator(".lines .mine").waitFor();
    expect(await buyer.page.inputValue("#say")).toBe("");
    await seller.page.goto("/");
    expect(await seller.page.textContent("nav .badge")).toMatch(/^[1-9]/);
    await seller.page.goto(path);
    expect(await seller.page.textContent(".lines li:last-child .body")).toBe("Is it <b>still</b> sealed?");
    await buyer.page.locator(".seen:has-text('Seen by')").waitFor();
    const sentAt = performance.now();
    for (const text of ["Yes.", "It is.", "Truly."]) {
      await seller.page.fill("#say", text);
      await seller.page.click(".say button");
      await seller.page.locator(`.mine .body:text-is("${text}")`).waitFor();
    }
    await buyer.page.locator('.theirs .body:text-is("Truly.")').waitFor();
    // A promise of one second each, on a machine that others use as well.
    expect(performance.now() - sentAt).toBeLessThan(15_000);
    const bodies = await buyer.page.locator(".lines .body").allTextContents();
    expect(bodies.slice(-3)).toEqual(["Yes.", "It is.", "Truly."]);
    await buyer.page.reload();
    expect(await buyer.page.locator("nav .badge").count()).toBe(0);
    expect([...buyer.complaints, ...seller.complaints]).toEqual([]);
    await seller.close();
    await buyer.close();
  });

  it("names complete while they are typed; arrows choose, Escape closes, overtaken answers are dropped", async () => {
    const { page, complaints, close } = await open();
    await page.goto("/");
    const asked: string[] = [];
    page.on("request", (request) => {
      const { pathname, searchParams } = new URL(request.url());
      if (pathname === "/suggest") asked.push(searchParams.get("q") ?? "");
    });
    const options = page.locator("#q-list [role=option]");
    await page.locator("#q").pressSequentially("bra");
    const allContain = async (letters: string): Promise<void> => {
      const texts = await options.allTextContents();
      expect(texts.length).toBeGreaterThan(0);
      for (const text of texts) expect(text.toLowerCase()).toContain(letters);
    };
    await eventually(() => allContain("bra"));
    expect(await page.getAttribute("#q", "aria-expanded")).toBe("true");
    // One round trip for each key, and no others.
    expect(asked).toEqual(["b", "br", "bra"]);
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    expect(await page.getAttribute("#q", "aria-activedescendant")).toBe("q-list-1");
    await page.keyboard.press("Escape");
    expect(await page.locator("#q-list").isHidden()).toBe(true);

    // The answer to the first key is held back until that of the last one is shown: it was given up by then.
    let letGo = (): void => undefined;
    const isShown = new Promise<void>((resolve) => (letGo = resolve));
    await page.route("**/suggest?q=o", async (route) => {
      await isShown;
      await route.continue().catch(() => undefined);
    });
    const givenUp = page.waitForEvent("requestfailed", (request) => request.url().endsWith("/suggest?q=o"));
    await page.fill("#q", "");
    await page.locator("#q").pressSequentially("oak");
    await eventually(() => allContain("oak"));
    await givenUp;
    letGo();
    await allContain("oak");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/item\//);
    expect(complaints).toEqual([]);
    await close();
  });

  it("a message goes to a member of one's guild whose name is completed, and to nobody else", async () => {
    const here = await open();
    const { page, complaints, close } = here;
    await signIn(here);
    await page.goto("/messages");
    const options = page.locator("#to-list [role=option]");
    for (const letter of "aeiouslmn") {
      await page.fill("#to", "");
      await page.locator("#to").pressSequentially(letter);
      if (
        await options
          .filter({ hasText: "Your guild" })
          .first()
          .waitFor({ timeout: 2_000 })
          .then(
            () => true,
            () => false,
          )
      )
        break;
    }
    await options.filter({ hasText: "Your guild" }).first().click();
    await page.fill("#text", "Greetings to the guild");
    await page.click("text=Send");
    await page.waitForURL(/\/messages\/with\//);
    expect(await page.textContent(".mine .body")).toBe("Greetings to the guild");
    await page.goto("/messages");
    await page.fill("#to", "Nobody At All");
    await page.fill("#text", "Hello?");
    await page.click("text=Send");
    expect(await page.textContent(".notice.bad")).toContain("no such name");
    expect(complaints).toEqual([]);
    await close();
  });

  it("a visitor lists what they bought, and sees it first on the market", async () => {
    const here = await open();
    const { page, complaints, close } = here;
    await signIn(here);
    await buySomething(here, "chairs");
    await page.click(".summary p a");
    const title = await page.textContent("h1");
    await page.fill("#pounds", "12.34");
    await page.click("text=List optimistically");
    await page.waitForSelector(".notice.good");
    await page.goto("/");
    expect(await page.textContent(".cards .card >> nth=0")).toContain("£12.34");
    expect(await page.textContent(".cards .card >> nth=0")).toContain(title?.trim());
    expect(complaints).toEqual([]);
    await close();
  });

  it("the lock panel and the bar are live: held by somebody, others wait, let go", async () => {
    const here = await open();
    const { page, complaints, close } = here;
    await firstItem(here, "plants");
    const lock = page.locator("#lock");
    await lock.locator(".chip.free").waitFor();
    await hears(page);
    const visitor = new Visitor(shop.origin);
    const csrf = await visitor.signIn("u61");
    const path = new URL(page.url()).pathname;
    await visitor.post(`${path}/hold`, { csrf });
    await lock.locator(".chip.held").waitFor();
    const left = async (): Promise<number> =>
      Number.parseFloat((await lock.locator("[data-lock=left]").textContent()) ?? "");
    expect(await lock.locator("[data-lock=fence]").textContent()).toMatch(/^\d{16}$/);
    const seen = await left();
    await eventually(async () => expect(await left()).not.toBe(seen));

    // Somebody buys under the lock: waits in the queue until it is let go, then the page says that it is out of date.
    const other = new Visitor(shop.origin);
    const token = await other.signIn("u62");
    // Let in once the first one lets go; nobody waits here for that.
    void other.post(`${path}/hold`, { csrf: token }).catch(() => undefined);
    await eventually(async () => expect(await lock.locator("[data-lock=waiters]").textContent()).toBe("1"));
    await lock.locator(".queue li").waitFor();
    expect(complaints).toEqual([]);
    await close();
  });

  it("a page whose item was sold meanwhile says so, and updates can be paused", async () => {
    const here = await open();
    const { page, close } = here;
    await signIn(here);
    await firstItem(here, "records");
    const buyer = await open();
    await signIn(buyer);
    await page.click("[data-pause]");
    expect(await page.getAttribute("[data-pause]", "aria-pressed")).toBe("true");
    const sales = await page.textContent("#bar-sales");
    await buyer.page.goto(page.url());
    await buyer.page.click("text=Buy with the lock");
    await buyer.page.waitForSelector(".notice.good");
    await eventually(async () => expect(await buyer.page.textContent("#bar-sales")).not.toBe(sales));
    expect(await page.textContent("#stale")).toBe("");
    await page.click("[data-pause]");
    await page.waitForSelector("#stale .note");
    expect(await page.textContent("#bar-money")).toContain("exactly the starting total");
    expect(await page.textContent("#bar-items")).toContain("each with exactly one owner");
    await close();
    await buyer.close();
  });

  it("a stream that breaks is resumed after its last event: nothing is missing, nothing comes twice", async () => {
    await using wire = await FaultProxy.start({ port: Number(new URL(shop.origin).port) });
    const here = await open({ baseURL: `http://127.0.0.1:${new URL(wire.url).port}` });
    const { page, close } = here;
    await signIn(here);
    await buySomething(here, "textiles");
    // The stream has reported this, so it is open.
    await page.locator(".waterfall .mark.good >> nth=2").waitFor();
    const resumed = page.waitForRequest((request) => request.headers()["last-event-id"] !== undefined);
    wire.refuse = true;
    wire.resetAll();
    await page.locator("[data-offline]:visible").waitFor();
    const visitor = new Visitor(shop.origin);
    const cookies = await page.context().cookies();
    visitor.cookie = `sid=${cookies.find(({ name }) => name === "sid")?.value ?? ""}`;
    const path = new URL(page.url()).pathname;
    const csrf = (await page.getAttribute(".say input[name=csrf]", "value")) ?? "";
    for (const text of ["one", "two", "three"]) await visitor.post(`${path}/say`, { csrf, id: text, text });
    wire.heal();
    await page.locator('.mine .body:text-is("three")').waitFor();
    expect(await page.locator(".mine .body").allTextContents()).toEqual(["one", "two", "three"]);
    expect((await resumed).headers()["last-event-id"]).toMatch(/^[\w-]{8}(\.[\w-]{8})+$/);
    expect(await page.locator("[data-offline]").isHidden()).toBe(true);
    await close();
  });

  it("everything works with JavaScript off: persona, search, buy, chat, list, race, faults", async () => {
    const { page, complaints, close } = await open({ javaScriptEnabled: false });
    await page.goto("/personas");
    await page.click('.persona:has-text("rich buyer")');
    await page.waitForURL("/");
    await page.goto("/search?q=brass");
    expect(await page.locator(".results li").count()).toBeGreaterThan(5);
    await page.goto("/?category=ceramics");
    await page.click(".cards .card a");
    await page.click("text=Buy with the lock");
    expect(await page.textContent(".notice.good")).toContain("You bought ");
    await page.fill("#say", "When does it ship?");
    await page.click(".say button");
    expect(await page.textContent(".mine .body")).toBe("When does it ship?");
    await eventually(async () => {
      await page.reload();
      expect(await page.textContent(".lines")).toContain("It goes out today");
    });
    await page.click(".summary p a");
    await page.fill("#pounds", "99");
    await page.click("text=List with the lock");
    expect(await page.textContent(".notice.good")).toContain("£99.00");
    expect(await page.textContent(".bar")).toContain("exactly the starting total");
    expect(await page.locator("[data-pause]").isVisible()).toBe(false);
    await page.goto("/race?way=lock");
    await page.click(".race .start button");
    expect(await page.textContent(".headline")).toContain("Sold once");
    await press(page, "flush");
    await eventually(async () => {
      await page.reload();
      expect(await page.textContent(fault("flush"))).toContain("still took only");
    });
    expect(complaints).toEqual([]);
    await close();
  });

  it("the tour follows a visitor who continues without it", async () => {
    const here = await open();
    const { page, close } = here;
    const strip = page.locator(".strip");
    const step = (number: number): Promise<void> => strip.locator(`b:has-text("Step ${number} of 5")`).waitFor();
    await page.goto("/tour/1");
    await signIn(here);
    // Something cheap: the purse is that of all tests of this file.
    await firstItem(here, "records");
    await step(2);
    await page.click("text=Buy with the lock");
    await page.waitForURL(/\/order\//);
    await step(3);
    for (const [path, number] of [
      ["/mail", 3],
      ["/race", 4],
      ["/", 4],
      ["/faults", 5],
    ] as const) {
      await page.goto(path);
      await step(number);
    }
    expect(await strip.textContent()).toContain("Kill a worker");
    await close();
  });

  it("the tour leads through its five steps, from one page to the next", async () => {
    const here = await open();
    const { page, complaints, close } = here;
    const strip = page.locator(".strip");
    const step = (number: number): Promise<void> => strip.locator(`b:has-text("Step ${number} of 5")`).waitFor();
    await page.goto("/");
    expect(await strip.count()).toBe(0);
    await page.click("text=Take the two-minute tour");
    await step(1);
    // The browser focuses it after it has drawn the page.
    await eventually(async () => expect(await page.evaluate("document.activeElement.id")).toBe("q"));
    // The words that the tour says to type find something.
    const wanted = [...((await strip.textContent()) ?? "").matchAll(/“([^”]+)”/g)].map(([, words = ""]) => words);
    expect(wanted.length).toBeGreaterThan(1);
    for (const words of wanted) {
      await page.fill("#q", "");
      await page.locator("#q").pressSequentially(words);
      // Until the last word has its answer, the list shows that of the letters before.
      await eventually(
        async () => {
          const shown = await page.locator("#q-list [role=option]:visible mark").allTextContents();
          expect(shown.join(" ").toLowerCase()).toContain(words.split(" ")[0]);
        },
        { timeoutMs: stepMs },
      );
    }
    await page.keyboard.press("Escape");
    await strip.locator("text=Next").click();
    await step(2);
    await page.click('.persona:has-text("rich buyer")');
    await page.waitForURL("/");
    await step(2);
    await buySomething(here, "instruments");
    await step(3);
    await page.goto("/");
    await page.goto("/tour/3");
    expect(page.url()).toMatch(/\/order\//);
    for (const [number, path] of [
      [4, "/race"],
      [5, "/faults"],
    ] as const) {
      await strip.locator("text=Next").click();
      await page.waitForURL(path);
      await step(number);
    }
    await page.goto("/");
    await step(5);
    await strip.locator("text=Go there").click();
    await page.waitForURL("/faults");
    await strip.locator("text=Finish:").click();
    await page.waitForURL("/about");
    expect(await strip.count()).toBe(0);
    expect(complaints).toEqual([]);
    await close();
  });
});
