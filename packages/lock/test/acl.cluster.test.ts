import { aclBehaviour } from "./acl-behaviour.js";
import { app } from "./acl.js";
import { lockBehaviour } from "./behaviour.js";

aclBehaviour("cluster");
lockBehaviour("cluster", app);
