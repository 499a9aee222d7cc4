import { manageBehaviour } from "./manage-behaviour.js";

manageBehaviour("single");
