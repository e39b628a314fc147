// Runs every `sh` block of README.md and docs/. A line that starts a server runs until it listens.
import { assert, assertEquals } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { startProcess } from "../../packages/app/server_process_fixture_test.ts";

import { needs, NOT_WINDOWS, program } from "../needs.ts";

const ROOT = fromFileUrl(new URL("../..", import.meta.url));
/** Programs that may be missing. */
const PROGRAMS = [program("curl", "curl", "--version"), program("npm", "npm", "--version")];

interface Example {
  readonly page: string;
  readonly script: string;
}

const pages = [
  "README.md",
  ...[...Deno.readDirSync(join(ROOT, "docs"))].map(({ name }) => `docs/${name}`).sort(),
]
  .filter((name) => name.endsWith(".md"));
const examples: Example[] = pages.flatMap((page) =>
  [...Deno.readTextFileSync(join(ROOT, page)).matchAll(/^```sh\n([^]*?)^```$/gm)].map(([, script = ""]) => ({
    page,
    script,
  }))
);

/** First folder of PATH, with `deno` and programs installed by examples. */
async function ownBin(): Promise<{ readonly root: string; readonly env: Readonly<Record<string, string>> }> {
  const root = await Deno.makeTempDir();
  await Deno.mkdir(join(root, "bin"));
  await Deno.symlink(Deno.execPath(), join(root, "bin", "deno"));
  const none = ["TARE_HOST", "TARE_TOKEN", "TARE_WORKSPACE", "OPENAI_API_KEY", "OPENAI_BASE_URL"];
  const env = {
    ...Object.fromEntries([...none, "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"].map((name) => [name, ""])),
    NO_COLOR: "1",
    PATH: `${join(root, "bin")}:${Deno.env.get("PATH")}`,
    DENO_INSTALL_ROOT: root,
    npm_config_prefix: root,
    TARE_DATA: join(root, "data"),
  };
  return { root, env };
}

/** Starts a server by a line of an example, with replacements for omitted keys, and stops it once it listens. */
async function starts(line: string, env: Readonly<Record<string, string>>): Promise<void> {
  const args = ["-c", line.replaceAll("…", "key")];
  const process = new Deno.Command("/bin/sh", {
    args,
    cwd: ROOT,
    env: { ...env, TARE_PORT: "0" },
    detached: true,
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const stderr = new Response(process.stderr).text();
  let text = "";
  for await (const piece of process.stdout.pipeThrough(new TextDecoderStream())) {
    text += piece;
    if (!text.includes("Tare listens on") || text.includes("\0")) continue;
    text += "\0";
    Deno.kill(-process.pid, "SIGTERM");
  }
  await process.status;
  assert(text.includes("Tare listens on"), `${line}\n${text}${await stderr}`);
}

for (const [number, { page, script }] of examples.entries()) {
  const programs = PROGRAMS.filter(({ what }) => script.includes(`${what} `));
  const title = `${page}: example ${number + 1} runs: ${script.split("\n")[0]}`;
  Deno.test(needs([NOT_WINDOWS, ...programs], title), async () => {
    const { root, env } = await ownBin();
    if (script.includes("task start")) {
      for (const line of script.split("\n")) {
        if (line !== "" && !line.startsWith("#")) await starts(line, env);
      }
    } else {
      const server = await startProcess(["--port", "0", "--workspace", ROOT, "--data", join(root, "served")]);
      const { code, stdout, stderr } = await new Deno.Command("/bin/sh", {
        args: ["-euc", script.replaceAll("http://127.0.0.1:8787", server.url)],
        cwd: ROOT,
        env: { ...env, TARE_PORT: new URL(server.url).port },
      }).output();
      const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
      assertEquals(code, 0, `${out}${err}`);
      assert(!out!.includes('{"error"'), out);
      await server.end("SIGTERM");
    }
    await Deno.remove(root, { recursive: true });
  });
}

Deno.test("README.md and docs/: every link has a target", () => {
  for (const page of pages) {
    for (
      const [, target = ""] of Deno.readTextFileSync(join(ROOT, page)).matchAll(
        /\]\((?!https?:|#)([^)#]+)[^)]*\)/g,
      )
    ) {
      Deno.statSync(join(ROOT, page, "..", target));
    }
  }
});
