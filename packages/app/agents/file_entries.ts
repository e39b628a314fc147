import { applyEdits, findNodeAtLocation, getNodeValue, modify, parse, parseTree } from "jsonc-parser";
import type { ParseError } from "jsonc-parser";
import type { AgentFile, FileEntry } from "./agents.ts";

type Format = AgentFile["format"];

/**
 * The text of a configuration file with these entries in it, and everything else as it is, comments included.
 *
 * @throws {Error} if it can't be read as what it should be.
 */
export function withEntries(text: string, format: Format, entries: readonly FileEntry[]): string {
  const { mark, rest } = apart(text);
  return mark + entries.reduce((text, { path, value }) => FORMATS[format].set(text, path, value), rest);
}

/**
 * The text without them: where it still says what they say it says again what it said before, and else stays.
 *
 * @throws {Error} if it can't be read as what it should be.
 */
export function withoutEntries(
  text: string,
  format: Format,
  { entries, before: whole }: { readonly entries: readonly FileEntry[]; readonly before: string },
): string {
  const { get, set } = FORMATS[format];
  const before = apart(whole).rest;
  const { mark, rest } = apart(text);
  return mark + entries.reduce((text, { path, value }) => {
    if (get(text, path) !== value) return text;
    const cleared = set(text, path, get(before, path));
    // Objects that were made for it go with it, as long as nothing else has come to stand in them.
    return path.map((_, at) => path.slice(0, at)).filter(({ length }) => length > 0).reverse()
      .reduce(
        (text, above) =>
          isEmpty(get(text, above)) && get(before, above) === undefined ? set(text, above, undefined) : text,
        cleared,
      );
  }, rest);
}

/** The mark of an encoding stays in front of everything. */
function apart(text: string): { readonly mark: string; readonly rest: string } {
  const mark = text.startsWith(MARK) ? MARK : "";
  return { mark, rest: text.slice(mark.length) };
}

const MARK = "\ufeff";

/** What a file says there; nothing where it says nothing. */
export function entryIn(text: string, format: Format, path: readonly string[]): unknown {
  return FORMATS[format].get(apart(text).rest, path);
}

function isEmpty(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}

/** How a format's entries are read, written and, without a value, removed. */
const FORMATS: Readonly<
  Record<Format, {
    readonly get: (text: string, path: readonly string[]) => unknown;
    readonly set: (text: string, path: readonly string[], value: unknown) => string;
  }>
> = {
  json: {
    get(text, path) {
      const tree = parseTree(readable(text), [], { allowTrailingComma: true });
      const node = tree && findNodeAtLocation(tree, [...path]);
      return node === undefined ? undefined : getNodeValue(node);
    },
    set(text, path, value) {
      const given = readable(text);
      const [indent = "  "] = /^[ \t]+(?=\S)/m.exec(given) ?? [];
      const edits = modify(given, [...path], value, {
        formattingOptions: {
          insertSpaces: indent.startsWith(" "),
          tabSize: indent.length,
          eol: eolOf(given),
        },
      });
      return applyEdits(given, edits);
    },
  },
  toml: {
    get(text, [name = ""]) {
      const [, value] = lineOf(name).exec(topOf(text)) ?? [];
      return value;
    },
    set(text, [name = ""], value) {
      const top = topOf(text);
      const rest = text.slice(top.length);
      const line = value === undefined ? "" : `${name} = "${value}"${eolOf(text)}`;
      return (lineOf(name).test(top) ? top.replace(lineOf(name), () => line) : line + top) + rest;
    },
  },
};

/** JSON, with comments or without. A file without anything in it is taken for an empty object. */
function readable(text: string): string {
  if (text.trim() === "") return "{}\n";
  const errors: ParseError[] = [];
  const value = parse(text, errors, { allowTrailingComma: true });
  const [error] = errors;
  if (error === undefined && typeof value === "object" && value !== null && !Array.isArray(value)) {
    return text;
  }
  const line = text.slice(0, error?.offset ?? 0).split("\n").length;
  throw new Error(`it is no object in JSON${error === undefined ? "" : ` (line ${line})`}`);
}

/** What stands in a file of TOML in front of its tables. */
function topOf(text: string): string {
  const at = /^[ \t]*\[/m.exec(text)?.index;
  return at === undefined ? text : text.slice(0, at);
}

/** The line of a key whose value is a text. */
function lineOf(name: string): RegExp {
  return new RegExp(`^[ \\t]*${name}[ \\t]*=[ \\t]*["']([^"'\\n]*)["'][^\\n]*(?:\\n|$)`, "m");
}

function eolOf(text: string): string {
  return text.includes("\r\n") ? "\r\n" : "\n";
}
