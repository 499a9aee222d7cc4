import * as vitest from "vitest";
import { useRedis } from "@kit/testing";
import { configBehaviour } from "./config-behaviour.js";

const redis = useRedis(vitest, { permanentKeys: [/:config:\{/] });

configBehaviour(redis, "single");
