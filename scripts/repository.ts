import type { EntryPoints, SourceFile } from "./source_rules.ts";

export interface Member {
  readonly folder: string;
  readonly name: string;
  readonly publish?: false;
  readonly exports: string | Readonly<Record<string, string>>;
}

export const root: URL = new URL("../", import.meta.url);

export const config: {
  readonly workspace: readonly string[];
  /** Folders that replace packages of JSR. */
  readonly links: readonly string[];
  readonly tasks: Readonly<Record<string, { readonly command: string }>>;
} = readJson("deno.json");

export const members: readonly Member[] = config.workspace.map((path) => {
  const folder = path.replace(/^\.\//, "");
  return { folder, ...readJson(`${folder}/deno.json`) };
});

export const published: readonly Member[] = members.filter((member) => member.publish !== false);

/** Returns a member's files by import specifier, such as `@tare/loop/openai`. */
export function entryPoints({ name, folder, exports }: Member): EntryPoints {
  const paths = Object.entries(typeof exports === "string" ? { ".": exports } : exports);
  return new Map(
    paths.map((
      [specifier, path],
    ) => [`${name}${specifier.slice(1)}`, `${folder}/${path.replace(/^\.\//, "")}`]),
  );
}

export function programs(): ReadonlySet<string> {
  const tasks = [config, readJson("packages/cli/deno.json"), readJson("tests/apart/deno.json")]
    .flatMap(({ tasks }: Pick<typeof config, "tasks">) => Object.values(tasks));
  return new Set(tasks.flatMap(({ command }) => command.match(/\S+\.ts\b/g) ?? []));
}

/** Returns all tracked and untracked code and Markdown files, except ignored ones. */
export async function sourceFiles(): Promise<SourceFile[]> {
  const { stdout } = await new Deno.Command("git", {
    args: ["ls-files", "--cached", "--others", "--exclude-standard", "*.ts", "*.tsx", "*.md"],
    cwd: root,
  }).output();
  const files: SourceFile[] = [];
  for (const path of new TextDecoder().decode(stdout).split("\n").filter(Boolean)) {
    files.push({ path, text: await Deno.readTextFile(new URL(path, root)) });
  }
  return files;
}

function readJson(path: string) {
  return JSON.parse(Deno.readTextFileSync(new URL(path, root)));
}
