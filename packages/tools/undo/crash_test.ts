import { assert, assertEquals } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { CASE_FACTOR } from "../../../tests/cases.ts";
import { makeWorkspace, type Workspace } from "../fixture_test.ts";
import { inTurn, keep, snapshot } from "./fixture_test.ts";

const WRITER = fromFileUrl(import.meta.resolve("./crash_writer_test.ts"));
const FILES = 60;

function start({ root, outside }: Workspace, what: "undo" | "command" | "inspect"): Deno.ChildProcess {
  const folders = `${root},${outside}`;
  const allowed = [`--allow-read=${folders}`, `--allow-write=${folders}`];
  return new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-check", ...allowed, WRITER, root, join(outside, "undo"), what],
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
}

Deno.test("undo(): an interrupted undo is finished, and can be redone", async () => {
  const names = Array.from({ length: FILES }, (_, index) => `file${index}`);
  for (const moment of CASE_FACTOR > 1 ? [0, 1, 5, 20, 45] : [0, 5, 45]) {
    await using ws = await makeWorkspace(Object.fromEntries(names.map((name) => [name, "before"])));
    const before = await snapshot(ws.root);
    const first = keep(ws);
    await inTurn(first, 1, async () => {
      for (const name of names) await Deno.writeTextFile(ws.at(name), "after");
      await Deno.writeTextFile(ws.at("new"), "new");
    });
    const after = await snapshot(ws.root);
    await first.close();
    using watched = Deno.watchFs([ws.root, join(ws.outside, "undo")], { recursive: false });
    const child = start(ws, "undo");
    const ended = child.status.then(() => watched.close());
    let isBegun = false;
    const written = new Set<string>();
    for await (const { paths, kind } of watched) {
      isBegun ||= paths.some((path) => path.endsWith("pending.json"));
      for (const path of paths) {
        if (kind === "rename" && names.some((name) => path === ws.at(name))) written.add(path);
      }
      if (!isBegun || written.size < moment) continue;
      child.kill("SIGKILL");
      break;
    }
    await child.stdout.cancel();
    await ended.catch(() => {});
    const next = keep(ws);
    assertEquals((await next.changes("one")).map(({ isUndone }) => isUndone), [true]);
    assertEquals(await snapshot(ws.root), before);
    await next.redo("one");
    assertEquals(await snapshot(ws.root), after);
    await next.close();
  }
});

Deno.test("undo() reports links that it may not create", async () => {
  await using ws = await makeWorkspace({ a: "a", b: "b" });
  await Deno.symlink("a", ws.at("link"));
  const first = keep(ws);
  await inTurn(first, 1, async () => {
    await Deno.remove(ws.at("link"));
    await Deno.writeTextFile(ws.at("a"), "A");
    await Deno.symlink("b", ws.at("other"));
  });
  await first.close();
  const { stdout } = await start(ws, "undo").output();
  assertEquals(new TextDecoder().decode(stdout).trim().split("\n"), [
    "link: it was a link, and the server isn't allowed to make links.",
    "shell: what it did outside of the workspace's files.",
  ]);
  const { a, link, other } = await snapshot(ws.root);
  assertEquals([a?.slice(-1), link, other], ["a", undefined, undefined]);
});

Deno.test("changes of a command that was interrupted by a kill are recorded for its turn", async () => {
  await using ws = await makeWorkspace({ file0: "before" });
  await killOnce(ws, "command", "written");
  const next = keep(ws);
  const [change] = await next.changes("one");
  assertEquals([change?.turn, change?.files], [2, [{ path: "file0", change: "changed" }]]);
  assertEquals((await next.undo("one")).notCovered, [
    "The server ended while a command ran: other changes before its next start count as the command's.",
  ]);
  assertEquals(await Deno.readTextFile(ws.at("file0")), "before");
  await next.close();
});

async function killOnce(ws: Workspace, what: "command" | "inspect", text: string): Promise<void> {
  const child = start(ws, what);
  for await (const piece of child.stdout.pipeThrough(new TextDecoderStream())) {
    assert(piece.includes(text));
    break;
  }
  child.kill("SIGKILL");
  await child.status;
}

Deno.test("openCheckpoints() skips an inspection that ended the previous start", async () => {
  await using ws = await makeWorkspace({ file0: "before" });
  await killOnce(ws, "command", "written");
  await killOnce(ws, "inspect", "inspects");
  const next = keep(ws);
  await inTurn(next, 3, () => Deno.writeTextFile(ws.at("file0"), "later"));
  const { turns, files, notCovered } = await next.undo("one", { turn: 2 });
  assertEquals([turns, files, notCovered], [[3], [{ path: "file0", change: "changed" }], [
    "The server ended while a command ran: other changes before its next start count as the command's.",
    "Files that this command changed: the server ended again while it inspected the workspace.",
    "shell: what it did outside of the workspace's files.",
  ]]);
  assertEquals(await Deno.readTextFile(ws.at("file0")), "command");
  await next.close();
});
