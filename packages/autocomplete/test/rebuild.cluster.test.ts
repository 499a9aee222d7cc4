import { rebuildBehaviour } from "./rebuild-behaviour.js";

rebuildBehaviour("cluster");
