import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path";
import fc, { cases } from "../../../tests/cases.ts";
import { LINUX, needs, NOT_WINDOWS } from "../../../tests/needs.ts";
import { workspaceTools } from "@tare/tools";
import { UndoRefused } from "@tare/tools/undo";
import { call, makeWorkspace } from "../fixture_test.ts";
import { inTurn, keep, snapshot } from "./fixture_test.ts";

const NOT_COVERED = "shell: what it did outside of the workspace's files.";

Deno.test("undo() restores what a turn's tools and commands changed, and redo() reapplies it", async () => {
  await using ws = await makeWorkspace({
    "a.txt": "a",
    "b/c.txt": "c",
    "run.sh": "echo",
    "same.txt": "same",
  });
  const checkpoints = keep(ws);
  const before = await snapshot(ws.root);
  const tools = workspaceTools({ workspace: ws.root }).map((tool) =>
    checkpoints.watch(tool, { session: "one", turn: 4 })
  );
  const tool = (name: string) => tools.find(({ definition }) => definition.function.name === name)!;
  await call(tool("write_file"), { path: "new/deep/n.txt", content: "n" });
  await call(tool("edit_file"), { path: "a.txt", old_text: "a", new_text: "A" });
  await call(tool("shell"), { command: "rm -r b; chmod 700 run.sh; ln -s a.txt link; mkdir empty" });
  const after = await snapshot(ws.root);
  const files = [
    { path: "a.txt", change: "changed" },
    { path: "b/c.txt", change: "deleted" },
    { path: "link", change: "created" },
    { path: "new/deep/n.txt", change: "created" },
    { path: "run.sh", change: "changed" },
  ] as const;
  const [change] = await checkpoints.changes("one");
  assertEquals({ ...change, atMs: 0 }, {
    turn: 4,
    atMs: 0,
    isUndone: false,
    files,
    notCovered: [NOT_COVERED],
  });
  const undone = await checkpoints.undo("one");
  assertEquals([undone.turns, undone.notCovered, undone.files.map(({ change }) => change)], [
    [4],
    [NOT_COVERED],
    ["changed", "created", "deleted", "deleted", "changed"],
  ]);
  assertEquals(await snapshot(ws.root), before);
  assertEquals((await checkpoints.changes("one"))[0]?.isUndone, true);
  assertEquals((await checkpoints.redo("one")).files, files);
  assertEquals(await snapshot(ws.root), after);
  await checkpoints.close();
});

Deno.test("undo() ignores a file that another call has not written yet", async () => {
  await using ws = await makeWorkspace({ "a.txt": "a", ".tare-0123456789abcdef0123456789abcdef.tmp": "b" });
  const checkpoints = keep(ws);
  await inTurn(checkpoints, 1, async () => {
    await Deno.rename(ws.at(".tare-0123456789abcdef0123456789abcdef.tmp"), ws.at("b.txt"));
  });
  const [change] = await checkpoints.changes("one");
  assertEquals(change?.files, [{ path: "b.txt", change: "created" }]);
  await checkpoints.undo("one");
  assertEquals(Object.keys(await snapshot(ws.root)), ["a.txt"]);
  await checkpoints.close();
});

Deno.test("undo() rejects files that have changed since, and with force can be redone", async () => {
  await using ws = await makeWorkspace({ "a.txt": "a", "b.txt": "b" });
  const checkpoints = keep(ws);
  await inTurn(checkpoints, 1, async () => {
    await Deno.writeTextFile(ws.at("a.txt"), "turn");
    await Deno.writeTextFile(ws.at("b.txt"), "turn");
  });
  await Deno.writeTextFile(ws.at("a.txt"), "user");
  const seen = await snapshot(ws.root);
  const refused = await assertRejects(() => checkpoints.undo("one"), UndoRefused);
  assertEquals([refused.code, refused.message], [
    "conflict",
    "Cannot undo: a.txt: it was changed since. Nothing was changed. With force the later changes are overwritten, " +
    "and can be restored by the opposite.",
  ]);
  assertEquals(await snapshot(ws.root), seen);
  await checkpoints.undo("one", { force: true });
  assertEquals([await Deno.readTextFile(ws.at("a.txt")), await Deno.readTextFile(ws.at("b.txt"))], [
    "a",
    "b",
  ]);
  await checkpoints.redo("one");
  assertEquals(await snapshot(ws.root), seen);
  await checkpoints.close();
});

Deno.test("undo() restores the state before a turn, and a turn with changes ends redo", async () => {
  await using ws = await makeWorkspace({ "a.txt": "0" });
  const checkpoints = keep(ws);
  for (const turn of [3, 7, 9]) {
    await inTurn(checkpoints, turn, () => Deno.writeTextFile(ws.at("a.txt"), String(turn)));
  }
  assertEquals((await checkpoints.undo("one", { turn: 7 })).turns, [7, 9]);
  assertEquals(await Deno.readTextFile(ws.at("a.txt")), "3");
  assertEquals((await checkpoints.redo("one")).turns, [7, 9]);
  assertEquals((await checkpoints.undo("one")).turns, [9]);
  await inTurn(checkpoints, 11, () => Deno.writeTextFile(ws.at("a.txt"), "11"));
  assertEquals((await assertRejects(() => checkpoints.redo("one"), UndoRefused)).code, "nothing");
  assertEquals((await checkpoints.undo("one", { turn: 1 })).turns, [3, 7, 11]);
  assertEquals(await Deno.readTextFile(ws.at("a.txt")), "0");
  await checkpoints.close();
});

Deno.test("undo() skips and reports contents that aren't stored", async () => {
  await using ws = await makeWorkspace({
    ".gitignore": "secret\nbuild/\n",
    "secret": "s",
    "build/x": "x",
    "large": "0123456789abcdef",
    "grows": "g",
    "node_modules/p/i.js": "i",
  });
  const checkpoints = keep(ws, { limits: { maxFileBytes: 15 } });
  await inTurn(checkpoints, 1, async () => {
    await Deno.writeTextFile(ws.at("large"), "0123456789abcdefg");
    await Deno.writeTextFile(ws.at("build/x"), "y");
    await Deno.writeTextFile(ws.at("node_modules/p/i.js"), "j");
    // Files that are no longer ignored existed before, and must not be deleted.
    await Deno.writeTextFile(ws.at(".gitignore"), "build/\n");
    await Deno.writeTextFile(ws.at("secret"), "t");
    await Deno.writeTextFile(ws.at("huge"), "0123456789abcdefg");
    await Deno.writeTextFile(ws.at("grows"), "G");
  });
  await inTurn(checkpoints, 1, () => Deno.writeTextFile(ws.at("grows"), "0123456789abcdefg"));
  const unkept = ": its content isn't stored: too large, no regular file, or ignored before.";
  const { notCovered } = await checkpoints.undo("one");
  assertEquals(notCovered, [
    NOT_COVERED,
    ...["huge", "large", "secret", "grows"].map((path) => path + unkept),
  ]);
  const { "huge": huge, "secret": secret, ".gitignore": list, "build/x": build } = await snapshot(ws.root);
  assertEquals([huge, secret, list, build].map((text) => text?.slice(9)), [
    "0123456789abcdefg",
    "t",
    "secret\nbuild/\n",
    "y",
  ]);
  await checkpoints.close();
});

Deno.test(
  needs(NOT_WINDOWS, "undo() restores permissions of files and folders, set-user-ID and the like included"),
  async () => {
    await using ws = await makeWorkspace({ "a": "a", "d/b": "b", "gone/c": "c" });
    const modes: Readonly<Record<string, number>> = {
      a: 0o4755,
      d: 0o2750,
      "d/b": 0o640,
      gone: 0o700,
      "gone/c": 0o600,
    };
    const modesNow = () =>
      Object.fromEntries(Object.keys(modes).map((path) => [path, Deno.statSync(ws.at(path)).mode! & 0o7777]));
    for (const [path, mode] of Object.entries(modes)) await Deno.chmod(ws.at(path), mode);
    const checkpoints = keep(ws);
    await inTurn(checkpoints, 1, async () => {
      await Deno.chmod(ws.at("a"), 0o644);
      await Deno.chmod(ws.at("d/b"), 0o600);
      await Deno.chmod(ws.at("d"), 0o500);
      await Deno.remove(ws.at("gone"), { recursive: true });
    });
    const { files } = await checkpoints.undo("one");
    assertEquals(files, [
      { path: "a", change: "changed" },
      { path: "d", change: "changed" },
      { path: "d/b", change: "changed" },
      { path: "gone/c", change: "created" },
    ]);
    assertEquals(modesNow(), modes);
    await checkpoints.redo("one");
    assertEquals(Deno.statSync(ws.at("d")).mode! & 0o7777, 0o500);
    await Deno.chmod(ws.at("d"), 0o700);
    await checkpoints.close();
  },
);

Deno.test(
  needs(LINUX, "undo() reports hard links and names that aren't UTF-8, which it can't restore exactly"),
  async () => {
    await using ws = await makeWorkspace({ "a": "a", "other": "o" });
    await Deno.link(ws.at("a"), ws.at("b"));
    await new Deno.Command("sh", { args: ["-c", 'printf x >"$(printf "n\\377")"'], cwd: ws.root }).output();
    const checkpoints = keep(ws);
    await inTurn(checkpoints, 1, async () => {
      await Deno.writeTextFile(ws.at("a"), "A");
      await Deno.writeTextFile(ws.at("other"), "O");
    });
    const { files, notCovered } = await checkpoints.undo("one");
    assertEquals(files.map(({ path }) => path), ["a", "b", "other"]);
    assertEquals(notCovered, [
      NOT_COVERED,
      "n\uFFFD: its name isn't UTF-8, and it isn't stored.",
      "a: it is a hard link, and is restored as a separate file.",
      "b: it is a hard link, and is restored as a separate file.",
    ]);
    for (const path of ["a", "b"]) assertEquals(await Deno.readTextFile(ws.at(path)), "a");
    await checkpoints.close();
  },
);

Deno.test("a workspace that is too large is reported, and writes of tools are still stored", async () => {
  await using ws = await makeWorkspace({ "a": "a", "b": "b", "c": "c" });
  const checkpoints = keep(ws, { limits: { maxFiles: 2 } });
  const [write] = workspaceTools({ workspace: ws.root }).filter(({ writes }) => writes)
    .map((tool) => checkpoints.watch(tool, { session: "one", turn: 1 }));
  await call(write!, { path: "a", content: "A" });
  await inTurn(checkpoints, 1, () => Deno.writeTextFile(ws.at("b"), "B"));
  const { notCovered } = await checkpoints.undo("one");
  assertEquals(notCovered, [
    NOT_COVERED,
    "Files that commands changed: the workspace isn't stored, because it holds more than 2 files and folders.",
  ]);
  assertEquals([await Deno.readTextFile(ws.at("a")), await Deno.readTextFile(ws.at("b"))], ["a", "B"]);
  await checkpoints.close();
});

Deno.test("undo() writes nothing through a link that has replaced a folder", async () => {
  await using ws = await makeWorkspace({ "f/a": "a" });
  const checkpoints = keep(ws);
  await inTurn(checkpoints, 1, () => Deno.writeTextFile(ws.at("f/a"), "A"));
  await Deno.rename(ws.at("f"), join(ws.outside, "f"));
  await Deno.symlink(join(ws.outside, "f"), ws.at("f"));
  assertEquals((await assertRejects(() => checkpoints.undo("one"), UndoRefused)).code, "conflict");
  const { files, notCovered } = await checkpoints.undo("one", { force: true });
  assertEquals([files, notCovered], [[], [
    "f/a: its current content can't be stored, because it is too large, no regular file, or reached through a link.",
    NOT_COVERED,
  ]]);
  assertEquals(await Deno.readTextFile(join(ws.outside, "f/a")), "A");
  await checkpoints.close();
});

Deno.test("undo() is rejected while a command runs", async () => {
  await using ws = await makeWorkspace({ "a": "a" });
  const checkpoints = keep(ws);
  await inTurn(checkpoints, 1, () => Deno.writeTextFile(ws.at("a"), "A"));
  const refused = Promise.withResolvers<unknown>();
  await inTurn(checkpoints, 1, async () => {
    refused.resolve(await checkpoints.undo("one").catch((error) => error.code));
    await Deno.writeTextFile(ws.at("a"), "B");
  }, "other");
  assertEquals(await refused.promise, "busy");
  assertEquals((await assertRejects(() => checkpoints.undo("one"), UndoRefused)).code, "conflict");
  await checkpoints.undo("other");
  await checkpoints.undo("one");
  assertEquals(await Deno.readTextFile(ws.at("a")), "a");
  await checkpoints.close();
});

Deno.test("writes at the start and end of a command are recorded once", async () => {
  await using ws = await makeWorkspace({ "a": "a" });
  const checkpoints = keep(ws);
  const write = workspaceTools({ workspace: ws.root }).find(({ writes }) => writes)!;
  const begun = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  const slow = {
    ...write,
    async run(...given: Parameters<typeof write.run>) {
      begun.resolve();
      await ended.promise;
      return await write.run(...given);
    },
  };
  const writing = call(checkpoints.watch(slow, { session: "one", turn: 1 }), { path: "new/n", content: "n" });
  await begun.promise;
  await inTurn(checkpoints, 1, () => Deno.writeTextFile(ws.at("a"), "A"));
  ended.resolve();
  await writing;
  const [change] = await checkpoints.changes("one");
  assertEquals(change?.files, [{ path: "a", change: "changed" }, { path: "new/n", change: "created" }]);
  await checkpoints.undo("one");
  assertEquals(Object.keys(await snapshot(ws.root)), ["a"]);
  await checkpoints.close();
});

Deno.test("redo(): a command without changes retains the undone changes", async () => {
  await using ws = await makeWorkspace({ "a": "a" });
  const checkpoints = keep(ws);
  await inTurn(checkpoints, 1, () => Deno.writeTextFile(ws.at("a"), "A"));
  await checkpoints.undo("one");
  await inTurn(checkpoints, 1, () => Promise.resolve());
  assertEquals((await checkpoints.redo("one")).turns, [1]);
  assertEquals((await checkpoints.undo("one")).turns, [1]);
  assertEquals(await Deno.readTextFile(ws.at("a")), "a");
  await checkpoints.close();
});

Deno.test("data of a session is deleted on forget() and after keepMs", async () => {
  await using ws = await makeWorkspace({ "a": "first text" });
  const checkpoints = keep(ws);
  await inTurn(checkpoints, 1, () => Deno.writeTextFile(ws.at("a"), "second text"));
  const stored = async () => {
    const files = Object.values(await snapshot(join(ws.outside, "undo/contents")));
    return files.filter((file) => file !== "folder").map((file) => file.slice(9)).sort();
  };
  assertEquals(await stored(), ["first text", "second text"]);
  await checkpoints.close();
  const later = keep(ws);
  assertEquals((await later.changes("one")).length, 1);
  await later.forget("one");
  assertEquals(await later.changes("one"), []);
  await later.close();
  await keep(ws).close();
  assertEquals(await stored(), ["first text"]);
});

const PATHS = ["a", "b", "d/a", "d/e/a", "f"];

type Action = {
  readonly at: string;
  readonly as: "file" | "gone" | "folder" | "link" | "mode";
  readonly text: string;
};

const action: fc.Arbitrary<Action> = fc.record({
  at: fc.constantFrom(...PATHS),
  as: fc.constantFrom("file", "file", "gone", "folder", "link", "mode"),
  text: fc.constantFrom("x", "y", "zz"),
});

async function act(root: string, { at, as, text }: Action): Promise<void> {
  const absolute = join(root, at);
  const info = await Deno.lstat(absolute).catch(() => undefined);
  if (as === "mode") {
    if (info?.isFile) await Deno.chmod(absolute, text === "x" ? 0o755 : 0o644);
    return;
  }
  if (as === "gone" || info && (as !== "file" || !info.isFile)) {
    await Deno.remove(absolute, { recursive: true }).catch(() => {});
  }
  const parts = at.split("/").slice(0, -1);
  for (const [index] of parts.entries()) {
    const folder = join(root, ...parts.slice(0, index + 1));
    const above = await Deno.lstat(folder).catch(() => undefined);
    if (above && !above.isDirectory) await Deno.remove(folder);
    if (as !== "gone") await Deno.mkdir(folder, { recursive: true });
  }
  if (as === "file") await Deno.writeTextFile(absolute, text);
  if (as === "folder") await Deno.mkdir(absolute, { recursive: true });
  if (as === "link") await Deno.symlink(text, absolute);
}

Deno.test("any sequence of turns, undos, redos and restarts matches a model in memory", async () => {
  const step = fc.oneof(
    { weight: 4, arbitrary: fc.array(action, { minLength: 1, maxLength: 4 }) },
    { weight: 3, arbitrary: fc.constantFrom("undo", "redo") },
    { weight: 1, arbitrary: fc.constantFrom("before", "restart") },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
      await using ws = await makeWorkspace({ "a": "a", "d/a": "a", "f": "f" });
      let checkpoints = keep(ws);
      type Snapshot = Awaited<ReturnType<typeof snapshot>>;
      let done: { turn: number; before: Snapshot; after: Snapshot }[] = [];
      let undone: (typeof done)[] = [];
      for (const [turn, what] of steps.entries()) {
        const seen = await snapshot(ws.root);
        if (what === "restart") {
          await checkpoints.close();
          checkpoints = keep(ws);
        } else if (what === "redo") {
          const last = undone.pop();
          const redone = await checkpoints.redo("one").then(({ turns }) => turns, (error) => error.code);
          assertEquals(redone, last?.map(({ turn }) => turn) ?? "nothing");
          done.push(...last ?? []);
          assertEquals(await snapshot(ws.root), last?.at(-1)?.after ?? seen);
        } else if (typeof what === "string") {
          const removed = what === "undo" ? done.slice(-1) : done.slice(Math.floor(done.length / 2));
          const from = removed[0] ?? { turn: 0, before: seen };
          const options = what === "undo" ? {} : { turn: from.turn };
          const back = await checkpoints.undo("one", options).then(
            ({ turns }) => turns,
            (error) => error.code,
          );
          assertEquals(back, removed.length > 0 ? removed.map(({ turn }) => turn) : "nothing");
          assertEquals(await snapshot(ws.root), from.before);
          if (removed.length > 0) undone.push(removed);
          done = done.slice(0, done.length - removed.length);
        } else {
          await inTurn(checkpoints, turn, async () => {
            for (const action of what) await act(ws.root, action);
          });
          const after = await snapshot(ws.root);
          const isChanged = JSON.stringify(Object.entries(seen).sort()) !==
            JSON.stringify(Object.entries(after).sort());
          if (isChanged) {
            done.push({ turn, before: seen, after });
            undone = [];
          }
        }
      }
      await checkpoints.close();
    }),
    { numRuns: cases(40) },
  );
});

Deno.test("undo() never changes what the user has changed since the turn's end", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(action, { minLength: 1, maxLength: 4 }),
      fc.array(action, { minLength: 1, maxLength: 3 }),
      async (turns, persons) => {
        await using ws = await makeWorkspace({ "a": "a", "d/a": "a", "f": "f" });
        const checkpoints = keep(ws);
        const before = await snapshot(ws.root);
        await inTurn(checkpoints, 1, async () => {
          for (const action of turns) await act(ws.root, action);
        });
        const after = await snapshot(ws.root);
        for (const action of persons) await act(ws.root, action);
        const seen = await snapshot(ws.root);
        const outcome = await checkpoints.undo("one").then(() => "done", (error) => error.code);
        const now = await snapshot(ws.root);
        if (outcome !== "done") assertEquals(now, seen);
        for (const path of Object.keys({ ...before, ...after, ...seen, ...now })) {
          if (now[path] === seen[path]) continue;
          const isFolder = now[path] === "folder" && seen[path] === undefined;
          assert(isFolder || seen[path] === after[path], `${path}: ${seen[path]} became ${now[path]}`);
          assertEquals(now[path], before[path] ?? (isFolder ? "folder" : undefined));
        }
        await checkpoints.close();
      },
    ),
    { numRuns: cases(60) },
  );
});
