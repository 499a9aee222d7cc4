import { batchBehaviour } from "./batch-behaviour.js";

batchBehaviour("cluster");
