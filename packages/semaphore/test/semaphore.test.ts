import { semaphoreBehaviour } from "./behaviour.js";

semaphoreBehaviour("single");
