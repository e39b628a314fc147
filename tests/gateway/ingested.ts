/** Line that states what was removed, what is visible elsewhere, or how often the line above is repeated. */
const SAYS =
  /^(?:\[compressed: .*\]|\[(?:lines \d+-\d+|\d+ lines) unchanged, as in .+ above: ".*" to ".*"\]|\(\d+ more lines like this\))$/;
const NUMBER = /^\s*\d{1,7}(?:→|\t|\| ?)/;
// deno-lint-ignore no-control-regex
const TERMINAL_CODE = /\x1b\[[0-9;]*[A-Za-z]/g;

/**
 * Reports whether a text is a valid compression: shorter, with only lines of the original, or references to
 * such lines above.
 */
export function isIngested(visible: string, original: string): boolean {
  if (visible.length >= original.length) return false;
  const known = original.split("\n");
  const plain = known.map((line) => line.replace(NUMBER, ""));
  const whole = original.replace(TERMINAL_CODE, "");
  return visible.split("\n").every((line) =>
    SAYS.test(line) || known.includes(line) || plain.includes(line.replace(NUMBER, "")) ||
    whole.includes(line) || without(line) === without(original)
  );
}

/** Removes white space, which is insignificant in JSON. */
function without(text: string): string {
  return text.replace(/\s+/g, "");
}
