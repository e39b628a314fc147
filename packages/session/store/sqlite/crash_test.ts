import { assert, assertEquals, assertRejects } from "@std/assert";
import { dirname, fromFileUrl, join } from "@std/path";
import { StoreError } from "@tare/session";
import { openStore } from "@tare/session/sqlite";
import fc, { cases } from "../../../../tests/cases.ts";
import { withFolder } from "../folder_fixture_test.ts";

const KILLS = cases(3);

const MAX_LINES = 2_000;
const WRITER = fromFileUrl(import.meta.resolve("./crash_writer_test.ts"));

async function writeAndKill(
  path: string,
  lines: number,
  whileOpen: () => Promise<void> | void = () => {},
): Promise<string[][]> {
  const folder = dirname(path);
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-check", `--allow-read=${folder}`, `--allow-write=${folder}`, WRITER, path],
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  let writtenLines: string[] = [];
  let text = "";
  let killed = false;
  for await (const piece of child.stdout.pipeThrough(new TextDecoderStream())) {
    text += piece;
    writtenLines = text.split("\n").slice(0, -1);
    if (killed || writtenLines.length <= lines) continue;
    try {
      await whileOpen();
    } finally {
      child.kill("SIGKILL");
      killed = true;
    }
  }
  await child.status;
  return writtenLines.map((line) => line.split(" "));
}

Deno.test("openStore() finds all acknowledged writes of a killed process, in order", () =>
  withFolder(async (folder) => {
    const path = join(folder, "tare.db");
    const moments = fc.sample(fc.double({ min: 0, max: 1, noNaN: true }), KILLS);
    let written = 0;
    for (let round = 0; round < KILLS; round++) {
      const writtenLines = await writeAndKill(
        path,
        Math.floor((round + moments[round]!) * MAX_LINES / KILLS),
      );
      const store = await openStore(path);
      for (const [id = "", what = "", value = ""] of writtenLines.slice(1)) {
        if (what === "ref") assert(await store.archive(id).get(value), `${id} lost text ${value}`);
        else assert(await store.lastEvent(id) >= Number(value), `${id} lost event ${value}`);
      }
      for (const { id } of await store.listSessions()) {
        const events = await store.readEvents(id);
        for (const [index, { number, event }] of events.entries()) {
          const text = `${number} `.repeat(number % 50 === 0 ? 5000 : 5);
          assertEquals([number, event], [index + 1, { type: "text_delta", number, text }]);
        }
        assertEquals(await store.readState(id, "last") ?? 0, events.length);
        const ref = await store.readState(id, "ref") ?? "";
        assert(ref === "" || await store.archive(id).get(String(ref)));
      }
      written += writtenLines.length;
      await store.close();
    }
    assert(written > 100 * KILLS, `the writers wrote only ${written} times`);
  }));

Deno.test("openStore() is refused while another process has the file open, until it is killed", () =>
  withFolder(async (folder) => {
    const path = join(folder, "tare.db");
    await writeAndKill(path, 0, async () => {
      const error = await assertRejects(() => openStore(path), StoreError);
      assertEquals([error.code, error.message], [
        "locked",
        `Cannot open the store ${path}: another process has it open. Stop it, or use another file.`,
      ]);
    });
    await (await openStore(path)).close();
  }));
