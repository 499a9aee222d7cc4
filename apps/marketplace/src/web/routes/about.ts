// The pages that explain the shop.
import { existsSync, readFileSync } from "node:fs";
import type { Hono } from "hono";
import { deleteCookie } from "hono/cookie";
import { HTTPException } from "hono/http-exception";
import { appFile } from "../../common/app-file.js";
import { aboutPage, docsPage } from "../../pages/about.js";
import { startOfStep } from "../../pages/tour.js";
import { screens } from "../../pages/screens.js";
import { rememberStep, type Routes, tourCookie } from "../web.js";

const packages = "autocomplete board chat core geoip limiter lock logship queue semaphore stats testing".split(" ");

export const aboutRoutes: Routes = (app: Hono, web): void => {
  const { shop } = web;

  app.get("/about", async (c) => {
    const visitor = await web.visit(c);
    return await web.show(c, visitor, { title: "What am I looking at?", path: "/about", body: aboutPage(screens) });
  });

  app.get("/tour/:step", async (c) => {
    const step = c.req.param("step");
    if (step === "0") {
      deleteCookie(c, tourCookie, { path: "/" });
      return c.redirect("/about", 303);
    }
    const start = /^\d$/.test(step) ? startOfStep(Number(step)) : undefined;
    if (start === undefined) throw new HTTPException(404);
    rememberStep(c, Number(step));
    // The step about an order begins at the visitor's newest order.
    const persona = start === "/me" ? await web.persona(c) : null;
    const [order] = persona ? await shop.orders.newest(1, persona.user.id) : [];
    return c.redirect(order ? `/order/${order.id}` : start, 303);
  });

  app.get("/docs/:package", async (c) => {
    const name = c.req.param("package");
    if (!packages.includes(name)) throw new HTTPException(404);
    const file = appFile(`../../packages/${name}/README.md`);
    if (!existsSync(file)) throw new HTTPException(404);
    const visitor = await web.visit(c);
    return await web.show(c, visitor, {
      title: `@kit/${name}`,
      path: "/about",
      body: docsPage(name, readFileSync(file, "utf8")),
    });
  });
};
