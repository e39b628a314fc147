import * as languages from "@speed-highlight/core/languages";
import { type ShjLanguageData, tokenizeWith } from "@speed-highlight/core/tokenize";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

/** Longest highlighted text in characters. */
const LONGEST = 10_000;

/** Runs that take the highlighter's patterns too long. */
const HOSTILE = /\S{400}|\s{200}|(.)\1{100}/;

/** Time without a change until a growing text is highlighted, in milliseconds. */
const PAUSE = 150;

const ALIASES: Readonly<Record<string, keyof typeof languages>> = {
  ...{ cjs: "js", javascript: "js", jsx: "js", mjs: "js", node: "js" },
  ...{ cts: "ts", mts: "ts", tsx: "ts", typescript: "ts" },
  ...{ console: "bash", sh: "bash", shell: "bash", zsh: "bash" },
  ...{ "c++": "c", cc: "c", cpp: "c", h: "c", hpp: "c" },
  ...{ dockerfile: "docker", golang: "go", json5: "json", jsonc: "json", makefile: "make", markdown: "md" },
  ...{ patch: "diff", perl: "pl", python: "py", python3: "py", rust: "rs", svg: "xml", yml: "yaml" },
};

/** Its types don't hold with `exactOptionalPropertyTypes`. */
const LANGUAGES = languages as unknown as Record<string, ShjLanguageData>;

/** A text with its syntax in color, as soon as it doesn't change any more. */
export function Highlighted(
  { text, language }: { readonly text: string; readonly language: string },
): JSX.Element {
  const [done, setDone] = useState<{ readonly text: string; readonly parts: ComponentChildren }>();
  useEffect(() => {
    const timer = setTimeout(() => setDone({ text, parts: highlight(text, language) }), done ? PAUSE : 0);
    return () => clearTimeout(timer);
  }, [text, language]);
  return <>{done?.text === text ? done.parts : text}</>;
}

function highlight(text: string, language: string): ComponentChildren {
  const wanted = language.toLowerCase();
  const name = ALIASES[wanted] ?? wanted;
  if (!Object.hasOwn(languages, name) || text.length > LONGEST || HOSTILE.test(text)) return text;
  const parts: ComponentChildren[] = [];
  tokenizeWith(text, name, (piece, type) => {
    parts.push(type ? <span key={parts.length} class={`code-${type}`}>{piece}</span> : piece);
  }, { languages: LANGUAGES });
  return parts;
}
