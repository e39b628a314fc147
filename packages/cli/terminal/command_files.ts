import { join } from "@std/path";
import { readFound, readFrontMatter } from "@tare/tools/internal/instructions";

/** Folders of commands in a workspace and in the home folder; the first file with a name counts. */
const FOLDERS = ".agents/commands .claude/commands commands".split(" ");
const OWN_FOLDERS = ".config/tare/commands .claude/commands".split(" ");

export interface CommandFile {
  readonly name: string;
  readonly path: string;
  readonly within?: string;
}

/** File names of commands: letters of any script, digits, `-`, `_`. */
const NAME = /^([\p{L}\p{M}\p{N}_-]+)\.md$/u;

export function findCommands(
  { workspace, home }: { readonly workspace?: string | undefined; readonly home?: string | undefined },
): ReadonlyMap<string, CommandFile> {
  const folders = [
    ...workspace === undefined
      ? []
      : FOLDERS.map((folder) => ({ folder: join(workspace, folder), within: workspace })),
    ...home === undefined ? [] : OWN_FOLDERS.map((folder) => ({ folder: join(home, folder) })),
  ];
  const found = new Map<string, CommandFile>();
  for (const { folder, ...of } of folders) {
    for (const file of namesIn(folder)) {
      // Some file systems decompose accented letters.
      const [, name] = NAME.exec(file.normalize()) ?? [];
      if (name !== undefined && !found.has(name)) found.set(name, { name, path: join(folder, file), ...of });
    }
  }
  return found;
}

function namesIn(folder: string): readonly string[] {
  try {
    return [...Deno.readDirSync(folder)].map(({ name }) => name).sort();
  } catch {
    return [];
  }
}

/**
 * Returns a command's text with `$ARGUMENTS` and `$1` replaced.
 *
 * @throws {Error} if it is unreadable or outside `within`.
 */
export async function commandText({ name, path, within }: CommandFile, args: string): Promise<string> {
  const file = await readFound(path, { within });
  if (!file) throw new Error(`Cannot run /${name}: ${path} no longer exists.`);
  if ("why" in file) throw new Error(`Cannot run /${name}: ${path} can't be read, because ${file.why}.`);
  if (file.bytes.length < file.size) {
    throw new Error(
      `Cannot run /${name}: ${path} has ${file.size} bytes, and the limit is ${file.bytes.length}.`,
    );
  }
  const { body } = await readFrontMatter(textOf(file.bytes) ?? "");
  if (body.trim() === "") throw new Error(`Cannot run /${name}: ${path} is empty.`);
  const words = [...args.matchAll(/"([^"]*)"|'([^']*)'|\S+/g)]
    .map(([whole, double, single]) => double ?? single ?? whole);
  let isPlaced = false;
  const text = body.trim().replaceAll(/\$(?:ARGUMENTS\b|(\d)(?!\d))/g, (_, digit) => {
    isPlaced = true;
    return digit === undefined ? args : words[Number(digit) - 1] ?? "";
  });
  return isPlaced || args === "" ? text : `${text}\n\n${args}`;
}

function textOf(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true });
  } catch {
    return undefined;
  }
}

export async function listCommands(commands: Iterable<CommandFile>): Promise<readonly string[]> {
  return await Promise.all([...commands].map(async ({ name, path, within }) => {
    const file = await readFound(path, { within });
    const text = file && "bytes" in file ? textOf(file.bytes) ?? "" : "";
    const { fields: { description }, body } = await readFrontMatter(text);
    const [line = ""] = (description ?? body).trim().split("\n");
    return `/${name}`.padEnd(19) + line.slice(0, 80);
  }));
}
