import { progressBehaviour } from "./progress-behaviour.js";

progressBehaviour("single");
