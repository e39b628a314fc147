import { basename, join } from "@std/path";
import { readRecording, type Recording } from "@tare/simulator/economy";

export interface Data {
  readonly name: string;
  readonly recordings: readonly Recording[];
  readonly skipped: number;
}

/** Reads all `*.jsonl` files of a folder, by name. Lines that can't be replayed are skipped with a warning. */
export function loadData(
  folder: string,
  { limit = Infinity, warn }: { readonly limit?: number; readonly warn: (sentence: string) => void },
): Data[] {
  const files = [...Deno.readDirSync(folder)].map(({ name }) => name).filter((name) =>
    name.endsWith(".jsonl")
  );
  if (files.length === 0) throw new Error(`Cannot read recordings: ${folder} has no *.jsonl file`);
  return files.sort().map((file) => {
    const lines = Deno.readTextFileSync(join(folder, file)).split("\n");
    return { name: basename(file, ".jsonl"), ...readLines(lines, { file, limit, warn }) };
  });
}

function readLines(
  lines: readonly string[],
  { file, limit, warn }: {
    readonly file: string;
    readonly limit: number;
    readonly warn: (sentence: string) => void;
  },
): Pick<Data, "recordings" | "skipped"> {
  const recordings: Recording[] = [];
  let skipped = 0;
  for (const [index, line] of lines.entries()) {
    if (recordings.length >= limit) break;
    if (line.trim() === "") continue;
    try {
      recordings.push(readRecording(line));
    } catch (error) {
      skipped++;
      warn(`Skipped ${file}:${index + 1}: ${(error as Error).message}`);
    }
  }
  return { recordings, skipped };
}
