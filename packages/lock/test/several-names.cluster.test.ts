import { user } from "./acl.js";
import { severalNamesBehaviour } from "./several-names-behaviour.js";

severalNamesBehaviour("cluster", user.login);
