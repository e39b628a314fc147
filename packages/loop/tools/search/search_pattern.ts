import { RE2JS, RE2JSException } from "re2js";
import { Refusal } from "../define_tool.ts";

/** A regular expression held against one line at a time. */
export interface SearchPattern {
  /** Whether it matches anywhere in the line. */
  matches(line: string): boolean;
  /** Index in the line where its first match starts; 0 if there is none. */
  matchStart(line: string): number;
}

/**
 * Compiles an RE2 regular expression. Matching takes time linear in the line, whatever the pattern, so that no
 * pattern of a model can stall the server.
 *
 * @throws {Refusal} if it is no RE2 pattern.
 */
export function searchPattern(
  source: string,
  { ignoreCase = false }: { readonly ignoreCase?: boolean | undefined } = {},
): SearchPattern {
  let expression: RE2JS;
  try {
    expression = RE2JS.compile(source, ignoreCase ? RE2JS.CASE_INSENSITIVE : 0);
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error;
    throw new Refusal(
      `the pattern is not valid: ${error.message}. Patterns are RE2 regular expressions: no lookahead, no ` +
        "lookbehind, no backreferences; characters such as ( ) [ ] { } . * + ? need a backslash to stand for themselves.",
    );
  }
  return {
    matches: (line) => expression.test(line),
    matchStart(line) {
      const matcher = expression.matcher(line);
      return matcher.find() ? matcher.start() : 0;
    },
  };
}
