import { schedulesBehaviour } from "./schedules-behaviour.js";

schedulesBehaviour("single");
