import line from "./line.lua";

/** Lua that scripts of lines are joined with: the server's time, and messages to those who wait. */
export const lineSource: string = line;
