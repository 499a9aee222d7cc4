import { namesBehaviour } from "./names-behaviour.js";

namesBehaviour("single");
