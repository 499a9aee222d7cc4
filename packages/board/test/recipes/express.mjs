import { getRequestListener } from "@hono/node-server";
import express from "express";
import { board } from "./board.mjs";

const app = express();
// Before `express.urlencoded()`, which would read the board's forms.
app.all("/board", getRequestListener(board));
const server = app.listen(Number(process.env["PORT"]), () => console.log(`listens: ${server.address().port}`));
