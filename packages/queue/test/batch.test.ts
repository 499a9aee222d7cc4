import { batchBehaviour } from "./batch-behaviour.js";

batchBehaviour("single");
