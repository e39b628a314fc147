import { assert, assertEquals } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { cases } from "../cases.ts";
import { BUBBLEWRAP, LINUX, needs, program } from "../needs.ts";
import { SECRET as PLANTED } from "./break_out.ts";
import { resultsOf, withServer } from "./robbed_server.ts";
import type { Outcome } from "./exchanged_victim.ts";

const ATTACKER = fromFileUrl(import.meta.resolve("./exchange_folder.ts"));
const VICTIM = fromFileUrl(import.meta.resolve("./exchanged_victim.ts"));

const SECRET = "secret text of the user\n";

async function textIn(folder: string): Promise<string> {
  let text = "";
  for await (const { name, isDirectory, isFile } of Deno.readDir(folder)) {
    const path = join(folder, name);
    if (isDirectory) text += await textIn(path);
    if (isFile) text += await Deno.readTextFile(path);
  }
  return text;
}

/** Runs the victim while the folder `d` of its workspace is swapped with a link to a folder outside. */
async function attack(
  what: string,
  { times, hasLink = true }: { readonly times: number; readonly hasLink?: boolean },
): Promise<Outcome> {
  const top = await Deno.realPath(await Deno.makeTempDir());
  const [workspace, own, outside] = ["workspace", "own", "outside"].map((name) => join(top, name));
  for (const folder of [workspace!, own!, outside!]) await Deno.mkdir(folder);
  await Deno.writeTextFile(`${outside}/x`, SECRET);
  await Deno.writeTextFile(`${outside}/only-outside`, SECRET);
  if (hasLink) await Deno.symlink("/proc/self/fd", `${own}/fd`);
  const run = (args: readonly string[]) =>
    new Deno.Command(Deno.execPath(), {
      args: ["run", "--no-check", ...args],
      stdout: "piped",
      stderr: "inherit",
    });
  const attacker = run(["--allow-read", "--allow-write", ATTACKER, `${workspace}/d`, outside!])
    .spawn();
  try {
    const reader = attacker.stdout.getReader();
    await reader.read();
    reader.releaseLock();
    const allowed = `${workspace},${own}`;
    const { stdout, success } = await run([
      ...[`--allow-read=${allowed}`, `--allow-write=${allowed}`, VICTIM, workspace!, own!, what, `${times}`],
    ]).output();
    assert(success);
    attacker.kill("SIGKILL");
    await attacker.status;
    const outcome: Outcome = JSON.parse(new TextDecoder().decode(stdout));
    assertEquals(await textIn(outside!), SECRET + SECRET);
    assertEquals([...Deno.readDirSync(outside!)].map(({ name }) => name).sort(), ["only-outside", "x"]);
    const inside = await textIn(workspace!) + await textIn(own!) + outcome.results.join("\n");
    assertEquals([inside.includes(SECRET.trim()), inside.includes("only-outside")], [false, false]);
    return outcome;
  } finally {
    await attacker.stdout.cancel();
    await attacker.status;
    await Deno.remove(top, { recursive: true });
  }
}

const TIMES = { read: 600, search: 200, list: 300, write: 200, edit: 200, undo: 40 };

for (const [what, times] of Object.entries(TIMES)) {
  Deno.test(
    needs(LINUX, `${what}: nothing passes the workspace's bounds while a folder is exchanged for a link`),
    async () => {
      const { results, refused } = await attack(what, { times: cases(times) });
      // Both happen: otherwise no swap was in time, or nothing gets done.
      assert(results.length > 0 && refused > 0, `${results.length} calls succeeded, ${refused} were refused`);
    },
  );
}

for (const what of ["read", "search"]) {
  Deno.test(
    needs(LINUX, `${what}: the same holds where a process doesn't see which files it has open`),
    async () => {
      await attack(what, { times: cases(200), hasLink: false });
    },
  );
}

const EXCHANGE = 'for(;;){rename("d","aside");rename("link","d");rename("d","link");rename("aside","d")}';

Deno.test(
  needs(
    [BUBBLEWRAP, program("perl", "perl", "-v")],
    "server: a background command in the sandbox leads no file tool out of the workspace",
  ),
  async () => {
    const calls = ({ top }: { readonly top: string }) => [
      {
        command:
          `mkdir d && echo inside >d/project.txt && ln -s ${top}/beside link && exec perl -e '${EXCHANGE}'`,
        background: true,
      },
      ...Array.from({ length: cases(25) }, (_, index) => [
        { tool: "write_file", path: `d/planted${index}`, content: "inside" },
        { tool: "edit_file", path: "d/project.txt", old_text: PLANTED, new_text: "edited" },
        { tool: "read_file", path: "d/project.txt" },
        { tool: "search_files", path: "d", pattern: PLANTED.slice(0, 7), output: "files" },
      ]).flat(),
      { tool: "write_file", path: "planted", content: "inside" },
    ];
    await withServer({ flags: ["--approvals", "allow"], calls }, async ({ target }, turn) => {
      const { top } = target;
      assertEquals(await Deno.readLink(join(top, "data/fd")), "/proc/self/fd");
      const results = resultsOf(await turn());
      assertEquals(results.length, calls(target).length);
      assertEquals(results.filter((text) => text.includes(PLANTED) || /^d\/project.txt$/m.test(text)), []);
      assertEquals([...Deno.readDirSync(join(top, "beside"))].map(({ name }) => name).sort(), [
        "project.txt",
        "socket",
      ]);
      assertEquals(await Deno.readTextFile(join(top, "beside/project.txt")), PLANTED);
      assert(results.at(-1)?.startsWith("created planted"));
    });
  },
);
