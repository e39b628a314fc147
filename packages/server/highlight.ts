/**
 * Splits code into pieces with their kinds, for displays that color them. A separate entry point, so that a page
 * bundles nothing else of the server.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { highlightCode } from "@tare/server/internal/highlight";
 * assertEquals(highlightCode("if x: pass", "python")[0], { text: "if", kind: "kwd" });
 * ```
 *
 * @module
 */
import * as languages from "@speed-highlight/core/languages";
import { type ShjLanguageData, tokenizeWith } from "@speed-highlight/core/tokenize";

/** A piece of code; `kind` is absent for plain text. */
export interface CodePiece {
  readonly text: string;
  readonly kind?: string;
}

/** Longest highlighted code, in UTF-16 code units. */
const MAX_CHARS = 10_000;

/** Runs that take the highlighter's patterns too long. */
const HOSTILE = /\S{400}|\s{200}|(.)\1{100}/;

const ALIASES: Readonly<Record<string, keyof typeof languages>> = {
  ...{ cjs: "js", javascript: "js", jsx: "js", mjs: "js", node: "js" },
  ...{ cts: "ts", mts: "ts", tsx: "ts", typescript: "ts" },
  ...{ console: "bash", sh: "bash", shell: "bash", zsh: "bash" },
  ...{ "c++": "c", cc: "c", cpp: "c", h: "c", hpp: "c" },
  ...{ dockerfile: "docker", golang: "go", json5: "json", jsonc: "json", makefile: "make", markdown: "md" },
  ...{ patch: "diff", perl: "pl", python: "py", python3: "py", rust: "rs", svg: "xml", yml: "yaml" },
};

/** Its types don't hold with `exactOptionalPropertyTypes`. */
const LANGUAGES = languages as unknown as Readonly<Record<string, ShjLanguageData>>;

/** Returns the pieces of code; one plain piece if its language is unknown or it is too long. */
export function highlightCode(text: string, language: string): readonly CodePiece[] {
  const wanted = language.toLowerCase();
  const name = ALIASES[wanted] ?? wanted;
  if (!Object.hasOwn(languages, name) || text.length > MAX_CHARS || HOSTILE.test(text)) return [{ text }];
  const pieces: CodePiece[] = [];
  tokenizeWith(text, name, (text, kind) => {
    if (text !== "") pieces.push({ text, ...(kind && { kind }) });
  }, { languages: LANGUAGES });
  return pieces;
}
