import { assertEquals } from "@std/assert";
import { join } from "@std/path";
import { openStore } from "@tare/session/sqlite";
import { serverCommand, startServerProcess } from "./server_process.ts";
import { LINUX, needs, SMALL_DISK } from "../needs.ts";

async function refusal(args: readonly string[]): Promise<string> {
  const server = serverCommand(args).spawn();
  const stderr = new Response(server.stderr).text();
  for await (const line of server.stdout.pipeThrough(new TextDecoderStream())) {
    server.kill("SIGKILL");
    throw new Error(`It wasn't refused: ${line}`);
  }
  const { code } = await server.status;
  assertEquals(code, 1);
  return await stderr;
}

async function withStoredSessions(
  test: (args: readonly string[], file: string) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  const data = join(folder, "data");
  const file = join(data, "tare.db");
  const store = await openStore(file);
  const settings = { instructions: "Be brief. ".repeat(5000) };
  for (let count = 0; count < 30; count++) {
    await store.commit([{ type: "session", kind: "agent", id: `${count}`, createdAtMs: 0, settings }]);
  }
  await store.close();
  try {
    await test(["--port", "0", "--workspace", folder, "--data", data], file);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const RESTORE = "Restore it from a backup, or move it away to start with an empty store.\n";

Deno.test("start: a server refuses a damaged file in one sentence and leaves it unchanged", () =>
  withStoredSessions(async (args, file) => {
    const whole = await Deno.readFile(file);
    const flipped = (from: number, to: number) =>
      whole.map((byte, at) => at >= from && at < to ? ~byte : byte);
    const cases: [string, Uint8Array][] = [
      ["other header", flipped(0, 16)],
      ["damaged schema", flipped(100, 300)],
      ["damaged pages", flipped(4096, whole.length)],
      ["cut off in the middle of a page", whole.slice(0, 8192 + 100)],
      ["cut off after a page", whole.slice(0, 8192)],
      ["another file", new TextEncoder().encode("These are notes.\n".repeat(1000))],
    ];
    for (const [name, bytes] of cases) {
      await Deno.writeFile(file, bytes);
      const output = await refusal(args);
      assertEquals(/^Cannot read the store .*tare\.db: [^\n]+\. /.test(output), true, `${name}: ${output}`);
      assertEquals(output.slice(output.indexOf(RESTORE)), RESTORE, name);
      assertEquals(await Deno.readFile(file), bytes, name);
    }
  }));

Deno.test(
  needs(LINUX, "start: a server refuses a read-only data folder in one sentence"),
  async (t) => {
    const folder = await Deno.makeTempDir();
    const args = ["--port", "0", "--workspace", folder, "--data"];
    await t.step("in /proc", async () => {
      assertEquals(
        await refusal([...args, "/proc/tare"]),
        "Cannot use the store /proc/tare/tare.db: this process has no permission to read and write it. Use another folder.\n",
      );
    });
    const data = join(folder, "data");
    await Deno.mkdir(data);
    await t.step({
      ...needs(SMALL_DISK, "on a read-only disk"),
      async fn() {
        const mount = { args: ["-t", "tmpfs", "-o", "ro", "tmpfs", data] };
        assertEquals((await new Deno.Command("mount", mount).output()).code, 0);
        try {
          for (const path of [data, join(data, "inside")]) {
            assertEquals(
              await refusal([...args, path]),
              `Cannot use the store ${
                join(path, "tare.db")
              }: its folder is read-only. Make it writable, or use another ` +
                "folder.\n",
            );
          }
        } finally {
          await new Deno.Command("umount", { args: [data] }).output();
        }
      },
    });
    await Deno.remove(folder, { recursive: true });
  },
);

Deno.test("start: a second server on the same file is refused in one sentence, and the first continues", async () => {
  const folder = await Deno.makeTempDir();
  const args = ["--port", "0", "--workspace", folder, "--data", join(folder, "data")];
  const first = await startServerProcess(args);
  try {
    const file = join(folder, "data", "tare.db");
    for (let times = 0; times < 2; times++) {
      assertEquals(
        await refusal(args),
        `Cannot open the store ${file}: another process has it open. Stop it, or use another file.\n`,
      );
      const made = await fetch(`${first.url}/tare/v1/sessions`, { method: "POST" });
      assertEquals([made.status, (await made.json()).status], [201, "idle"]);
    }
  } finally {
    assertEquals(await first.kill(), "");
    await Deno.remove(folder, { recursive: true });
  }
});
