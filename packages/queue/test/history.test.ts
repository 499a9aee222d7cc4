import { historyBehaviour } from "./history-behaviour.js";

historyBehaviour("single");
