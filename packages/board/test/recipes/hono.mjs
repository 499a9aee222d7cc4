import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { board } from "./board.mjs";

const app = new Hono();
app.all("/board", (c) => board(c.req.raw));
serve({ fetch: app.fetch, port: Number(process.env["PORT"]) }, ({ port }) => console.log(`listens: ${port}`));
