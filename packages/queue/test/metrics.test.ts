import { metricsBehaviour } from "./metrics-behaviour.js";

metricsBehaviour("single");
