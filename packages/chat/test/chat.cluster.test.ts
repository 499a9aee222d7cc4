import { chatBehaviour } from "./behaviour.js";

chatBehaviour("cluster");
