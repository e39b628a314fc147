import { assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path";
import { commandText, findCommands, listCommands } from "./command_files.ts";

/** Creates a workspace and a home folder with these files. */
async function folderWith(files: Readonly<Record<string, string>>) {
  const top = await Deno.realPath(await Deno.makeTempDir());
  for (const [path, text] of Object.entries(files)) {
    await Deno.mkdir(join(top, path, ".."), { recursive: true });
    await Deno.writeTextFile(join(top, path), text);
  }
  return { top, workspace: join(top, "w"), home: join(top, "ann") };
}

Deno.test("findCommands() finds commands of workspace and home, the workspace's first", async () => {
  const { top, ...places } = await folderWith({
    "w/.agents/commands/review.md": "---\ndescription: Looks through it\n---\nReview.",
    "w/.claude/commands/review.md": "Another one.",
    "w/.claude/commands/fix.md": "Fix $1 in\n$ARGUMENTS.",
    "w/commands/notes.txt": "No command.",
    "ann/.claude/commands/mine.md": "Mine.",
  });
  const found = findCommands(places);
  assertEquals([...found.keys()], ["review", "fix", "mine"]);
  assertEquals(await listCommands(found.values()), [
    "/review            Looks through it",
    "/fix               Fix $1 in",
    "/mine              Mine.",
  ]);
  assertEquals([...findCommands({}).keys()], []);
  await Deno.remove(top, { recursive: true });
});

Deno.test("commandText() inserts arguments, or appends them", async () => {
  const { top, ...places } = await folderWith({
    "w/.agents/commands/fix.md": "---\nname: x\n---\n\nFix $1, then $2 and $3. ($ARGUMENTS)\n",
    "w/.agents/commands/plain.md": "Plain.",
  });
  const found = findCommands(places);
  assertEquals(
    await commandText(found.get("fix")!, '"a b" $1'),
    'Fix a b, then $1 and . ("a b" $1)',
  );
  assertEquals(await commandText(found.get("plain")!, ""), "Plain.");
  assertEquals(await commandText(found.get("plain")!, "it all"), "Plain.\n\nit all");
  await Deno.remove(top, { recursive: true });
});

Deno.test("findCommands() accepts names in any script and Unicode normal form", async () => {
  const { top, ...places } = await folderWith({
    "w/commands/pr\u0075\u0308fen.md": "Prüfe $ARGUMENTS.",
    "w/commands/確認.md": "Look.",
    "w/commands/two words.md": "No command.",
  });
  const found = findCommands(places);
  assertEquals([...found.keys()], ["pr\u00fcfen", "確認"]);
  assertEquals(await commandText(found.get("pr\u00fcfen")!, "es"), "Prüfe es.");
  await Deno.remove(top, { recursive: true });
});

Deno.test("commandText() preserves amounts of money and rejects empty files", async () => {
  const { top, ...places } = await folderWith({
    "w/commands/cost.md": "At most $10 for $1.",
    "w/commands/empty.md": "---\ndescription: Nothing\n---\n \n",
  });
  await Deno.writeFile(join(places.workspace, "commands/binary.md"), new Uint8Array([0xff, 0xfe, 0]));
  const found = findCommands(places);
  assertEquals(await commandText(found.get("cost")!, "it"), "At most $10 for it.");
  for (const name of ["empty", "binary"]) {
    await assertRejects(
      () => commandText(found.get(name)!, ""),
      Error,
      `Cannot run /${name}: ${join(places.workspace, `commands/${name}.md`)} is empty.`,
    );
  }
  await Deno.remove(top, { recursive: true });
});

Deno.test("commandText() rejects files outside the workspace and huge ones", async () => {
  const { top, ...places } = await folderWith({
    "ann/secret": "S",
    "w/.agents/commands/huge.md": "x".repeat(40_000),
  });
  await Deno.symlink(join(top, "ann/secret"), join(top, "w/.agents/commands/leak.md"));
  const found = findCommands(places);
  await assertRejects(
    () => commandText(found.get("leak")!, ""),
    Error,
    "can't be read, because it is a link to something else than a Markdown file of this project.",
  );
  await assertRejects(
    () => commandText(found.get("huge")!, ""),
    Error,
    "has 40000 bytes, and the limit is 32768.",
  );
  await Deno.remove(top, { recursive: true });
});
