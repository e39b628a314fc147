import { join } from "@std/path";
import { readFound, readFrontMatter } from "@tare/tools/internal/instructions";

/** Where commands lie in a workspace, and in a home folder; of two with one name the first counts. */
const FOLDERS = ".agents/commands .claude/commands commands".split(" ");
const OWN_FOLDERS = ".config/tare/commands .claude/commands".split(" ");

export interface CommandFile {
  readonly name: string;
  readonly path: string;
  /** The workspace, if it lies there. Absent: it is the person's own. */
  readonly within?: string;
}

/** What a command may be called: letters of any script, digits, `-`, `_`. */
const NAME = /^([\p{L}\p{M}\p{N}_-]+)\.md$/u;

/** Finds the commands of a workspace and of a person, by their names. */
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
      // Some systems take letters with their accents apart.
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
    // Most folders have none, and one that can't be read has none for this person.
    return [];
  }
}

/** Returns a command file's text with `$ARGUMENTS` and `$1` replaced. @throws {Error} if it is unreadable or outside. */
export async function commandText({ name, path, within }: CommandFile, args: string): Promise<string> {
  const file = await readFound(path, { within });
  if (!file) throw new Error(`Cannot do /${name}: ${path} is gone.`);
  if ("why" in file) throw new Error(`Cannot do /${name}: ${path} isn't read, because ${file.why}.`);
  if (file.bytes.length < file.size) {
    throw new Error(
      `Cannot do /${name}: ${path} has ${file.size} bytes, and at most ${file.bytes.length} may be.`,
    );
  }
  const { body } = await readFrontMatter(textOf(file.bytes) ?? "");
  if (body.trim() === "") throw new Error(`Cannot do /${name}: ${path} holds no words.`);
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
    // Of a long file the last letter may be cut.
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true });
  } catch {
    // It isn't text, whatever its name says.
    return undefined;
  }
}

/** What each command does, in a line, for `/help`. */
export async function listCommands(commands: Iterable<CommandFile>): Promise<readonly string[]> {
  return await Promise.all([...commands].map(async ({ name, path, within }) => {
    const file = await readFound(path, { within });
    const text = file && "bytes" in file ? textOf(file.bytes) ?? "" : "";
    const { fields: { description }, body } = await readFrontMatter(text);
    const [line = ""] = (description ?? body).trim().split("\n");
    return `/${name}`.padEnd(19) + line.slice(0, 80);
  }));
}
