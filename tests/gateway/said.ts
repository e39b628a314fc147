/** A line that states what was removed, what is visible elsewhere, or how often the line above it comes. */
const SAYS =
  /^(?:\[compressed: .*\]|\[(?:lines \d+-\d+|\d+ lines) unchanged, as in .+ above: ".*" to ".*"\]|\(\d+ more lines like this\))$/;
const NUMBER = /^\s*\d{1,7}(?:→|\t|\| ?)/;
// deno-lint-ignore no-control-regex
const TERMINAL_CODE = /\x1b\[[0-9;]*[A-Za-z]/g;

/**
 * Whether a text says an original with less notation, or refers to what stands above: each of its lines is one of the
 * original's, without its number, path or folder, or says where such lines stand, and it is shorter.
 */
export function isSaid(shown: string, original: string): boolean {
  if (shown.length >= original.length) return false;
  const known = original.split("\n");
  const plain = known.map((line) => line.replace(NUMBER, ""));
  const whole = original.replace(TERMINAL_CODE, "");
  return shown.split("\n").every((line) =>
    SAYS.test(line) || known.includes(line) || plain.includes(line.replace(NUMBER, "")) ||
    whole.includes(line) || without(line) === without(original)
  );
}

/** JSON is the same without its white space. */
function without(text: string): string {
  return text.replace(/\s+/g, "");
}
