import * as vitest from "vitest";
import { useRedis } from "@kit/testing";
import { scriptBehaviour } from "./script-behaviour.js";

scriptBehaviour(useRedis(vitest, { mode: "cluster" }));
