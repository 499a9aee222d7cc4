import { bookBehaviour } from "./book-behaviour.js";

bookBehaviour("cluster");
