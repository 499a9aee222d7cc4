// The end of every file. Files share workers and their modules, so this is no part of a module.
import { afterAll, afterEach } from "vitest";
import { endShops } from "./program.js";
import { leaveAll } from "./shop.js";

// At most five sessions of one persona may be open, so each test leaves none behind.
afterEach(leaveAll);

// A test that failed half-way leaves its shop to us.
afterAll(endShops);
