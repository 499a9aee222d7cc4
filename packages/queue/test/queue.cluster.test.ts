import { queueBehaviour } from "./behaviour.js";

queueBehaviour("cluster");
