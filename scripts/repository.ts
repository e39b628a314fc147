import type { EntryPoints, SourceFile } from "./source_rules.ts";

/** A member of the workspace: what its `deno.json` says. */
export interface Member {
  /** Its folder from the root, `packages/loop`. */
  readonly folder: string;
  readonly name: string;
  readonly publish?: false;
  readonly exports: string | Readonly<Record<string, string>>;
}

/** The repository's folder. */
export const root: URL = new URL("../", import.meta.url);

/** The workspace's configuration. */
export const config: {
  readonly workspace: readonly string[];
  /** Folders that stand for packages of JSR. */
  readonly links: readonly string[];
  readonly tasks: Readonly<Record<string, { readonly command: string }>>;
} = readJson("deno.json");

/** All members, in the order of the workspace. */
export const members: readonly Member[] = config.workspace.map((path) => {
  const folder = path.replace(/^\.\//, "");
  return { folder, ...readJson(`${folder}/deno.json`) };
});

/** The members that people get. */
export const published: readonly Member[] = members.filter((member) => member.publish !== false);

/** Files of a member by the specifiers that import them, `@tare/loop/openai`. */
export function entryPoints({ name, folder, exports }: Member): EntryPoints {
  const paths = Object.entries(typeof exports === "string" ? { ".": exports } : exports);
  return new Map(
    paths.map((
      [specifier, path],
    ) => [`${name}${specifier.slice(1)}`, `${folder}/${path.replace(/^\.\//, "")}`]),
  );
}

/** Returns the files that tasks run. */
export function programs(): ReadonlySet<string> {
  const tasks = [config, readJson("packages/cli/deno.json"), readJson("tests/apart/deno.json")]
    .flatMap(({ tasks }: Pick<typeof config, "tasks">) => Object.values(tasks));
  return new Set(tasks.flatMap(({ command }) => command.match(/\S+\.ts\b/g) ?? []));
}

/** All code and texts that git knows or would take. */
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
