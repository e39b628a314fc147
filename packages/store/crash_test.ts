import { assert, assertEquals, assertThrows } from "@std/assert";
import { dirname, fromFileUrl, join } from "@std/path";
import { openStore, StoreError } from "@tare/store";
import { withFolder } from "./fixture_test.ts";

const KILLS = 15;
const WRITER = fromFileUrl(import.meta.resolve("./crash_writer_test.ts"));

/** Runs a process that writes to the store until it has said so many lines, kills it, and gives what it said. */
async function writeAndKill(path: string, lines: number, whileOpen = () => {}): Promise<string[][]> {
  const folder = dirname(path);
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-check", `--allow-read=${folder}`, `--allow-write=${folder}`, WRITER, path],
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  let said: string[] = [];
  let text = "";
  let killed = false;
  for await (const piece of child.stdout.pipeThrough(new TextDecoderStream())) {
    text += piece;
    // What comes behind the last line break was cut off.
    said = text.split("\n").slice(0, -1);
    if (killed || said.length <= lines) continue;
    try {
      whileOpen();
    } finally {
      child.kill("SIGKILL");
      killed = true;
    }
  }
  await child.status;
  return said.map((line) => line.split(" "));
}

Deno.test("openStore() finds all that was acknowledged before a process was killed, in order and whole", () =>
  withFolder(async (folder) => {
    const path = join(folder, "tare.db");
    let written = 0;
    for (let round = 0; round < KILLS; round++) {
      const said = await writeAndKill(path, Math.floor(Math.random() * 2000));
      const store = openStore(path);
      for (const [id = "", what = "", value = ""] of said.slice(1)) {
        if (what === "ref") assert(await store.archive(id).get(value), `${id} lost text ${value}`);
        else assert(store.lastEvent(id) >= Number(value), `${id} lost event ${value}`);
      }
      for (const { id } of store.listSessions()) {
        const events = store.readEvents(id);
        for (const [index, { number, event }] of events.entries()) {
          const text = `${number} `.repeat(number % 50 === 0 ? 5000 : 5);
          assertEquals([number, event], [index + 1, { type: "text_delta", number, text }]);
        }
        assertEquals(store.readState(id, "last") ?? 0, events.length);
        const ref = store.readState(id, "ref") ?? "";
        assert(ref === "" || await store.archive(id).get(String(ref)));
      }
      written += said.length;
      store.close();
    }
    assert(written > 100 * KILLS, `the writers wrote only ${written} times`);
  }));

Deno.test("openStore() is refused while another process has the file, and not once that was killed", () =>
  withFolder(async (folder) => {
    const path = join(folder, "tare.db");
    await writeAndKill(path, 0, () => {
      const error = assertThrows(() => openStore(path), StoreError);
      assertEquals([error.code, error.message], [
        "locked",
        `Cannot open the store ${path}: another process has it open. Stop it, or use another file.`,
      ]);
    });
    openStore(path).close();
  }));
