import { limitsBehaviour } from "./limits-behaviour.js";

limitsBehaviour("cluster");
