import { parsePlaceholder } from "@tare/prune/internal";

export interface SeenResult {
  readonly text: string;
  /** Visible part; `none` if it was evicted, is missing or an error. */
  readonly seen: "whole" | "part" | "none";
  readonly ref?: string;
}

/** Markers of partial results: in the first line, or in brackets on a separate line. */
const CUT = /\bfollow, |\bcut to fit\b|\bcontinue with\b|\btruncated\b|\bomitted\b/;

export function readResult(text: string): SeenResult {
  const [first = "", ...others] = text.split("\n");
  const brackets = others.filter((line) => /^\[.*\]$/.test(line));
  const elided = [first, ...brackets].find(parsePlaceholder);
  const ref = elided && parsePlaceholder(elided)?.ref;
  const seen = text === "" || first === elided || /^(Cannot|Error)\b/.test(text)
    ? "none"
    : elided !== undefined || CUT.test(first) || brackets.some((line) => CUT.test(line))
    ? "part"
    : "whole";
  return { text, seen, ...(ref !== undefined && { ref }) };
}

/** Parses a listing, one entry per line. Folders end with a slash, which is removed; sizes follow after a tab. */
export function listedEntries(
  text: string,
): { readonly folders: readonly string[]; readonly files: readonly string[] } {
  const paths = text.split("\n")
    .map((line) => line.trim().replace(/^[-*] /, "").replace(/(\t| {2,}| \().*$/, ""))
    .filter((path) => path !== "" && !/: |^\[/.test(path));
  return {
    folders: paths.filter((path) => path.endsWith("/")).map((path) => path.slice(0, -1)),
    files: paths.filter((path) => !path.endsWith("/")),
  };
}

export function countedPaths(text: string): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const line of text.split("\n")) {
    const [, path, count] = /^(\S+|\S.*\.\w+):\s*(\d+)$/.exec(line.trim()) ?? [];
    if (path !== undefined) counts.set(path, Number(count));
  }
  return counts;
}

export interface FoundLine {
  readonly path: string;
  /** From 1. */
  readonly line: number;
  readonly text: string;
}

export function foundLines(text: string): FoundLine[] {
  return text.split("\n").flatMap((row) => {
    const [, path, line, found = ""] = /^(.+?):(\d+):\s?(.*)$/.exec(row) ?? [];
    return path === undefined ? [] : [{ path, line: Number(line), text: found.trim() }];
  });
}

interface FileRange {
  readonly from: number;
  readonly to: number;
  readonly total: number;
  readonly lines: readonly string[];
}

/** Parses a file range after a line such as `lines 1-200 of 345`; undefined without it. */
export function readRange(text: string): FileRange | undefined {
  const [first = "", ...lines] = text.split("\n");
  const [, from, to, total] = /^lines (\d+)-(\d+) of (\d+)/.exec(first) ?? [];
  return from === undefined ? undefined : { from: Number(from), to: Number(to), total: Number(total), lines };
}
