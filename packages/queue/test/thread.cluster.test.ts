import { threadBehaviour } from "./thread-behaviour.js";

threadBehaviour("cluster");
