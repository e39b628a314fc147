/** UTF-16 code units at each end of a result that are searched for an exit code. */
const REACH_CHARS = 512;

/** Longest result that is parsed as JSON, in UTF-16 code units. */
const MAX_JSON_CHARS = 1_000_000;

/** An exit code in the first line, or in a line before the output. */
const FIRST_LINE =
  /^(?:exit code:? (-?\d+)(?:;|$)|(?:.+\n){0,4}process exited with code (-?\d+)$|command executed .*\bexit code: (-?\d+)$|<(?:exit_?code|returncode)>(-?\d+)<)/im;

const LAST_LINE =
  /(?:^|\n)(?:command exited with code (-?\d+)|\[(?:the )?command (?:completed|finished) with exit code (-?\d+)\.?\])\s*$/i;

/** An exit code in a list of fields, as some agents write it. */
const LISTED = { first: /^(?:command|output): /i, code: /^exit code: (-?\d+)$/im };

/** Returns the exit code in a tool result's own line, fields or JSON; `undefined` if there is none. */
export function exitCodeIn(text: string): number | undefined {
  const [head, tail] = [text.slice(0, REACH_CHARS), text.slice(-REACH_CHARS)];
  const first = FIRST_LINE.exec(head);
  const listed = LISTED.first.test(head) ? LISTED.code.exec(tail) : undefined;
  const code = (first?.index === 0 ? first : LAST_LINE.exec(tail) ?? listed)?.slice(1).find(Boolean);
  return code === undefined ? codeInJson(text) : Number(code);
}

function codeInJson(text: string): number | undefined {
  if (!text.startsWith("{") || text.length > MAX_JSON_CHARS || !/"exit_?code"/i.test(text)) return undefined;
  try {
    const value: Readonly<Record<string, unknown>> = JSON.parse(text);
    const { metadata } = value;
    const fields = typeof metadata === "object" ? { ...value, ...metadata } : value;
    const code = fields["exit_code"] ?? fields["exitCode"];
    return typeof code === "number" ? code : undefined;
  } catch {
    // Not JSON.
    return undefined;
  }
}
