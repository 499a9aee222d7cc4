import { lockBehaviour } from "./behaviour.js";

lockBehaviour("single");
