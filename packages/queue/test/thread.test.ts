import { threadBehaviour } from "./thread-behaviour.js";

threadBehaviour("single");
