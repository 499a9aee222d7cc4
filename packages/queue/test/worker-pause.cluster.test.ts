import { workerPauseBehaviour } from "./worker-pause-behaviour.js";

workerPauseBehaviour("cluster");
