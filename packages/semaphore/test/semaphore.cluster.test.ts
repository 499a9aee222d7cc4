import { semaphoreBehaviour } from "./behaviour.js";

semaphoreBehaviour("cluster");
