import { useRedis } from "@kit/testing";
import { describeDescriptor } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { descriptor } from "../src/descriptor/index.js";
import { user } from "./acl.js";

// Statistics have no inbox, and need no command for one; most other packages have.
const ofInbox = ["+publish", "+subscribe", "+unsubscribe"];
const redis = useRedis(vitest);
describeDescriptor(descriptor, { ...user, grants: (mode) => [...user.grants(mode), ...ofInbox] }, redis);
