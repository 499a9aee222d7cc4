// Code that the pages share. The board loads the queue's pages on first use, and they must not contain a copy of this code.
export { assets } from "../assets/index.js";
export * from "./action.js";
export * from "./call.js";
export * from "./find.js";
export * from "./form.js";
export * from "./health.js";
export * from "./html.js";
export * from "./layout.js";
export * from "./overview.js";
export * from "./parts.js";
export * from "./samples.js";
export * from "./thing.js";
export * from "./view.js";
