import { limitsBehaviour } from "./limits-behaviour.js";

limitsBehaviour("single");
