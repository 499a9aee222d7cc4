import { createServer } from "node:http";
import { getRequestListener } from "@hono/node-server";
import { board } from "./board.mjs";

const listener = getRequestListener(board);
const server = createServer((request, response) => void listener(request, response));
server.listen(Number(process.env["PORT"]), () => console.log(`listens: ${server.address().port}`));
