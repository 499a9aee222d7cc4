import { aclBehaviour } from "./acl-behaviour.js";

aclBehaviour("single");
