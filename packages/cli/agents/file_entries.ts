import { applyEdits, findNodeAtLocation, getNodeValue, modify, parse, parseTree } from "jsonc-parser";
import type { ParseError } from "jsonc-parser";
import JSON5 from "json5";
import { isMap, isNode, isScalar, isSeq, type Pair, parseDocument, type YAMLMap } from "yaml";

export interface FileEntry {
  /** Keys from the root to the entry; an element of a list is named by its `name`. */
  readonly path: readonly string[];
  readonly value: string;
}

export type FileFormat = "json" | "json5" | "toml" | "yaml";

/** Sets entries and preserves all other text. @throws {Error} if the text isn't of this format. */
export function withEntries(text: string, format: FileFormat, entries: readonly FileEntry[]): string {
  const { mark, rest } = apart(text);
  return mark + entries.reduce((text, { path, value }) => FORMATS[format].set(text, path, value), rest);
}

/** Resets entries that still have their value to `before`. @throws {Error} if the text isn't of this format. */
export function withoutEntries(
  text: string,
  format: FileFormat,
  { entries, before: whole }: { readonly entries: readonly FileEntry[]; readonly before: string },
): string {
  const { get, set } = FORMATS[format];
  const before = apart(whole).rest;
  const { mark, rest } = apart(text);
  return mark + entries.reduce((text, { path, value }) => {
    if (get(text, path) !== value) return text;
    const cleared = set(text, path, get(before, path));
    return path.map((_, at) => path.slice(0, at)).filter(({ length }) => length > 0).reverse()
      .reduce(
        (text, above) =>
          isEmpty(get(text, above)) && get(before, above) === undefined ? set(text, above, undefined) : text,
        cleared,
      );
  }, rest);
}

function apart(text: string): { readonly mark: string; readonly rest: string } {
  const mark = text.startsWith(MARK) ? MARK : "";
  return { mark, rest: text.slice(mark.length) };
}

const MARK = "\ufeff";

export function entryIn(text: string, format: FileFormat, path: readonly string[]): unknown {
  return FORMATS[format].get(apart(text).rest, path);
}

function isEmpty(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}

/** Access to entries by format; `set` without a value removes the entry. */
const FORMATS: Readonly<
  Record<FileFormat, {
    readonly get: (text: string, path: readonly string[]) => unknown;
    readonly set: (text: string, path: readonly string[], value: unknown) => string;
  }>
> = {
  // JSON5 is rewritten as JSON, unless it is JSON with comments.
  json5: {
    get: (text, path) => FORMATS.json.get(plainJson(text), path),
    set: (text, path, value) => FORMATS.json.set(plainJson(text), path, value),
  },
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
  yaml: {
    get(text, path) {
      const at = yamlIn(text, path);
      return isScalar(at) ? at.value : at;
    },
    set: withYaml,
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

function yamlIn(text: string, path: readonly string[]) {
  const document = parseDocument(text, { keepSourceTokens: true });
  const [error] = document.errors;
  if (error) throw new Error(`it isn't YAML (line ${error.linePos?.[0].line ?? 1})`);
  let at: unknown = document.contents;
  for (const name of path) {
    at = isSeq(at)
      ? at.items.find((item) => isMap(item) && item.get("name") === name)
      : pairIn(at, name)?.value;
  }
  return at;
}

function pairIn(map: unknown, name: string): Pair | undefined {
  return isMap(map) ? map.items.find(({ key }) => isScalar(key) && key.value === name) : undefined;
}

function rangeOf(node: unknown): readonly [number, number] {
  if (!isNode(node) || !node.range) throw new Error("its YAML has no positions");
  return [node.range[0], node.range[1]];
}

/** Sets or removes an entry of YAML and preserves all other text. */
function withYaml(text: string, path: readonly string[], value: unknown): string {
  const [map, name = ""] = [yamlIn(text, path.slice(0, -1)), path.at(-1)];
  if (!isMap(map)) throw new Error(`it has no ${path.slice(0, -1).join(".")}`);
  const pair = pairIn(map, name);
  const cut = (from: number, to: number, by = "") => text.slice(0, from) + by + text.slice(to);
  if (value === undefined) return pair ? cut(...pieceOf(map, pair)) : text;
  if (pair) return cut(...rangeOf(pair.value), JSON.stringify(value));
  // Before the last entry: the first one may follow a list's dash.
  const [at] = rangeOf(map.items.at(-1)?.key);
  const column = at - (text.lastIndexOf("\n", at - 1) + 1);
  const end = map.flow ? ", " : eolOf(text) + " ".repeat(column);
  return cut(at, at, `${name}: ${JSON.stringify(value)}${end}`);
}

function pieceOf({ items }: YAMLMap, pair: Pair): [number, number] {
  const at = items.indexOf(pair);
  const next = items[at + 1];
  if (next) return [rangeOf(pair.key)[0], rangeOf(next.key)[0]];
  return [rangeOf(items[at - 1]?.value)[1], rangeOf(pair.value)[1]];
}

/** Checks for a JSON object. An empty file is an empty object. */
function readable(text: string): string {
  if (text.trim() === "") return "{}\n";
  const errors: ParseError[] = [];
  const value = parse(text, errors, { allowTrailingComma: true });
  const [error] = errors;
  if (error === undefined && typeof value === "object" && value !== null && !Array.isArray(value)) {
    return text;
  }
  const line = text.slice(0, error?.offset ?? 0).split("\n").length;
  throw new Error(`it isn't a JSON object${error === undefined ? "" : ` (line ${line})`}`);
}

function plainJson(text: string): string {
  const errors: ParseError[] = [];
  parse(text, errors, { allowTrailingComma: true });
  if (errors.length === 0 || text.trim() === "") return text;
  try {
    return `${JSON.stringify(JSON5.parse(text), null, 2)}\n`;
  } catch (error) {
    throw new Error(`it isn't JSON5 (${(error as Error).message.replace("JSON5: ", "")})`);
  }
}

function topOf(text: string): string {
  const at = /^[ \t]*\[/m.exec(text)?.index;
  return at === undefined ? text : text.slice(0, at);
}

function lineOf(name: string): RegExp {
  return new RegExp(`^[ \\t]*${name}[ \\t]*=[ \\t]*["']([^"'\\n]*)["'][^\\n]*(?:\\n|$)`, "m");
}

function eolOf(text: string): string {
  return text.includes("\r\n") ? "\r\n" : "\n";
}
