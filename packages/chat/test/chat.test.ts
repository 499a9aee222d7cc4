import { chatBehaviour } from "./behaviour.js";

chatBehaviour("single");
