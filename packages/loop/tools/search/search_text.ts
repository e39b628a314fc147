import type { FileHandle } from "node:fs/promises";
import type { ToolContext } from "@tare/messages";
import type { GrepRows } from "./grep_rows.ts";
import { decodeText } from "../result_text.ts";
import type { SearchPattern } from "./search_pattern.ts";
import { textBlocks } from "../files/text_file.ts";

/** How one file is searched. */
export interface SearchTextOptions {
  /** Names the file in the rows. */
  readonly path: string;
  readonly pattern: SearchPattern;
  /** Takes the rows to show; the search ends once it is full. */
  readonly rows?: GrepRows | undefined;
  /** Stop at the first match. Default: false. */
  readonly firstOnly?: boolean;
}

/** What a search found in one file. */
export interface TextMatches {
  readonly matches: number;
  /** Lines so long that only their start was searched. */
  readonly cutLines: number;
}

/** Searches an open text file line by line, in constant memory. Line ends are no part of a line, CRLF included. */
export async function searchText(
  file: FileHandle,
  options: SearchTextOptions & { readonly context: ToolContext },
): Promise<TextMatches> {
  const { path, pattern, rows, firstOnly = false, context } = options;
  let number = 0;
  let matches = 0;
  let cutLines = 0;
  for await (const { bytes, droppedBytes } of textBlocks(file, context)) {
    if (droppedBytes > 0) cutLines++;
    const lines = decodeText(bytes).text.split("\n");
    if (lines.at(-1) === "") lines.pop();
    for (const line of lines) {
      number++;
      const text = line.endsWith("\r") ? line.slice(0, -1) : line;
      const matched = pattern.matches(text);
      if (matched) matches++;
      rows?.add({ path, number, text, matched });
      if (rows?.full || (matched && firstOnly)) return { matches, cutLines };
    }
  }
  return { matches, cutLines };
}
