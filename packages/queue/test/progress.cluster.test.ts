import { progressBehaviour } from "./progress-behaviour.js";

progressBehaviour("cluster");
