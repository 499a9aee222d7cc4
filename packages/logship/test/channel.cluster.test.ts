import { channelBehaviour } from "./channel-behaviour.js";

channelBehaviour("cluster");
