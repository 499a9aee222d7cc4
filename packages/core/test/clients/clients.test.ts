import { useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe } from "vitest";
import { clientBehaviour } from "./behaviour.js";
import { drivers } from "./drivers.js";

const redis = useRedis(vitest, { replicas: 1 });

describe.each(drivers)("a client of $name", (driver) => clientBehaviour(redis, driver));
