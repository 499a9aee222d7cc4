import { svg, text } from "./svg.mjs";

const margin = 24;
const lineHeight = 18;
/** The width of a character, as in all of the usual fonts for programs. */
const character = 7.9;

/**
 * A session of a terminal; a line that begins with `$ ` is a command.
 * @param {string} session
 */
export function terminal(session) {
  const lines = session.trimEnd().split("\n");
  const width = Math.ceil(2 * margin + Math.max(...lines.map((line) => line.length)) * character);
  const height = 2 * margin + lines.length * lineHeight;
  return svg(
    width,
    height,
    `A terminal: ${lines.filter((line) => line.startsWith("$ ")).join("; ")}`,
    lines.map((line, index) =>
      text(margin, margin + (index + 0.75) * lineHeight, line, {
        className: line.startsWith("$ ") ? "mono strong" : "mono",
      }),
    ),
  );
}
