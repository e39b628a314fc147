import { assertEquals, assertRejects } from "@std/assert";
import { basename, dirname, join, resolve } from "@std/path";
import fc, { cases } from "../../../tests/cases.ts";
import { systemCode, ToolRefusal } from "../define_tool.ts";
import { context, makeWorkspace } from "../fixture_test.ts";
import {
  isWithin,
  pathWithin,
  resolveInWorkspace,
  statFile,
  statInWorkspace,
} from "./resolve_in_workspace.ts";
import { needs, NOT_WINDOWS } from "../../../tests/needs.ts";

Deno.test("resolveInWorkspace() accepts relative and absolute paths inside, existing or not", async () => {
  await using ws = await makeWorkspace({ "src/a.ts": "" });
  for (
    const [path, relative] of [
      ["src/a.ts", "src/a.ts"],
      ["./src/../src//a.ts", "src/a.ts"],
      ["src/", "src"],
      [".", "."],
      ["", "."],
      ["new/folder/file.txt", "new/folder/file.txt"],
      ["..file/...", "..file/..."],
      [ws.at("src/a.ts"), "src/a.ts"],
      [ws.root, "."],
      [`../${basename(ws.root)}/src`, "src"],
    ] as const
  ) {
    assertEquals(await resolveInWorkspace(ws.root, path), {
      root: ws.root,
      absolute: join(ws.root, relative),
      relative,
    });
  }
});

Deno.test("resolveInWorkspace() rejects paths outside", async () => {
  await using ws = await makeWorkspace({ "src/a.ts": "" });
  const outside = "it is outside of the workspace.";
  for (const path of ["..", "../outside", "src/../../outside", "/", "/etc/passwd", ws.outside]) {
    await assertRejects(() => resolveInWorkspace(ws.root, path), ToolRefusal, outside, path);
  }
  // A folder whose name starts with the workspace's.
  await assertRejects(() => resolveInWorkspace(ws.root, `${ws.root}-2/a`), ToolRefusal, outside);
  await assertRejects(() => resolveInWorkspace(ws.root, "a\0b"), ToolRefusal, "NUL");
});

Deno.test("resolveInWorkspace() follows links: at the end, in the middle, dangling, in chains", async () => {
  await using ws = await makeWorkspace({ "src/deep/a.ts": "" });
  const link = (target: string, path: string) => Deno.symlink(target, ws.at(path));
  await link("src/deep", "inside");
  await link(ws.at("src"), "absolute");
  await link("nowhere/yet", "dangling");
  await link("dangling", "chain");
  await link(ws.outside, "out");
  await link("../outside/new", "out-dangling");
  await link("out-dangling", "out-chain");
  // From src/deep, the link's real folder, this is src/up; from `inside` it would be outside.
  await link("../up", "src/deep/up");
  const absolute = async (path: string) => (await resolveInWorkspace(ws.root, path)).relative;
  assertEquals(await absolute("inside/a.ts"), "src/deep/a.ts");
  assertEquals(await absolute("absolute/deep/new.ts"), "src/deep/new.ts");
  assertEquals(await absolute("dangling"), "nowhere/yet");
  assertEquals(await absolute("chain/file"), "nowhere/yet/file");
  assertEquals(await absolute("inside/up"), "src/up");
  // The rest of a dangling link may be a link in its target.
  await link("not-there/..", "nowhere-and-back");
  assertEquals(await absolute("nowhere-and-back/chain"), "nowhere/yet");
  const outside = ["out", "out/a", "out-dangling", "out-chain", "out-chain/x"];
  const behind = outside.map((path) => `nowhere-and-back/${path}`);
  for (const path of [...outside, ...behind, "out/../a/../../outside"]) {
    await assertRejects(() => resolveInWorkspace(ws.root, path), ToolRefusal, "outside", path);
  }
});

Deno.test("resolveInWorkspace() rejects cycles of links", async () => {
  await using ws = await makeWorkspace();
  await Deno.symlink("b", ws.at("a"));
  await Deno.symlink("a", ws.at("b"));
  await assertRejects(() => resolveInWorkspace(ws.root, "a"), Error, "ELOOP");
  await assertRejects(() => resolveInWorkspace(ws.root, "a/x"), Error, "ELOOP");
});

Deno.test("resolveInWorkspace() accepts a workspace that is a link, and paths through either name", async () => {
  await using ws = await makeWorkspace({ "a.txt": "" });
  const alias = join(ws.outside, "alias");
  await Deno.symlink(ws.root, alias);
  const expected = { root: ws.root, absolute: ws.at("a.txt"), relative: "a.txt" };
  for (const path of ["a.txt", join(alias, "a.txt"), ws.at("a.txt")]) {
    assertEquals(await resolveInWorkspace(alias, path), expected);
  }
  await assertRejects(() => resolveInWorkspace(alias, "../x"), ToolRefusal, "outside");
});

Deno.test("resolveInWorkspace() reports a missing workspace", async () => {
  await using ws = await makeWorkspace();
  await assertRejects(
    () => resolveInWorkspace(ws.at("gone"), "a"),
    ToolRefusal,
    "the workspace folder itself",
  );
});

Deno.test("resolveInWorkspace() never leaves the workspace, and agrees with the system for existing paths", async () => {
  const name = fc.constantFrom("a", "b", "link", "l2", "..", "new");
  const path = fc.array(name, { maxLength: 4 }).map((names) => names.join("/"));
  const target = fc.oneof(path, path.map((p) => `/OUTSIDE/${p}`), path.map((p) => `/ROOT/${p}`));
  const at = fc.constantFrom("link", "l2", "a/link", "a/b/link", "b/link");
  const links = fc.array(fc.record({ at, target }), { maxLength: 4 });
  const throughLink = fc.tuple(at, path).map((parts) => parts.join("/"));
  await fc.assert(
    fc.asyncProperty(links, fc.oneof(at, throughLink, target), async (links, wanted) => {
      await using ws = await makeWorkspace({ "a/b/a": "", "b/": "" });
      const place = (text: string) => text.replace("/OUTSIDE", ws.outside).replace("/ROOT", ws.root);
      for (const link of links) {
        if (link.target !== "") await Deno.symlink(place(link.target), ws.at(link.at)).catch(() => {});
      }
      const real = await Deno.realPath(resolve(ws.root, place(wanted))).catch(() => undefined);
      let found: string;
      try {
        found = (await resolveInWorkspace(ws.root, place(wanted))).absolute;
      } catch (error) {
        if (!(error instanceof ToolRefusal || systemCode(error) === "ELOOP")) throw error;
        if (real !== undefined) assertEquals(`${real}/`.startsWith(`${ws.root}/`), false, "refused wrongly");
        return;
      }
      if (real !== undefined) assertEquals(found, real);
      assertEquals(`${found}/`.startsWith(`${ws.root}/`), true);
      // Creating it must not create anything outside either.
      await Deno.mkdir(dirname(found), { recursive: true }).catch(() => {});
      await Deno.writeTextFile(found, "").catch(() => {});
      assertEquals([...Deno.readDirSync(ws.outside)], []);
    }),
    { numRuns: cases(200) },
  );
});

const files = { "src/server/handler.ts": "12345", "src/handler_test.ts": "", "docs/": "", "node/x": "" };

Deno.test("statInWorkspace() returns the metadata of files and folders", async () => {
  await using ws = await makeWorkspace(files);
  const stat = async (path: string) =>
    await statInWorkspace(await resolveInWorkspace(ws.root, path), context);
  assertEquals((await stat("src/server/handler.ts")).size, 5);
  assertEquals((await stat("docs")).isDirectory(), true);
});

Deno.test("statInWorkspace() suggests paths with the same or a similar name", async () => {
  await using ws = await makeWorkspace(files);
  const refusal = async (path: string) => {
    const place = await resolveInWorkspace(ws.root, path);
    return (await assertRejects(() => statInWorkspace(place, context), ToolRefusal)).message;
  };
  assertEquals(
    await refusal("src/Handler.ts"),
    "it does not exist. Did you mean src/server/handler.ts or src/handler_test.ts?",
  );
  assertEquals(await refusal("src/sever"), "it does not exist. Did you mean src/server/?");
  assertEquals(await refusal("zzz.bin"), "it does not exist. Look for it with list_files.");
});

Deno.test("statFile() rejects folders and pipes", async () => {
  await using ws = await makeWorkspace(files);
  await new Deno.Command("mkfifo", { args: [ws.at("pipe")] }).output();
  const stat = async (path: string) => await statFile(await resolveInWorkspace(ws.root, path), context);
  assertEquals((await stat("node/x")).isFile(), true);
  await assertRejects(() => stat("docs"), ToolRefusal, "it is a folder. See what is in it with list_files.");
  await assertRejects(() => stat("pipe"), ToolRefusal, "it is a pipe, a socket or a device");
});

Deno.test(
  needs(NOT_WINDOWS, "pathWithin() returns the path from a folder, and nothing outside of it"),
  () => {
    for (
      const [folder, path, expected] of [
        ["/a", "/a", "."],
        ["/a", "/a/b/c", "b/c"],
        ["/", "/a", "a"],
        ["/a/", "/a/b", "b"],
        ["/a", "/a/..b", "..b"],
        ["/a", "/ab", undefined],
        ["/a", "/", undefined],
        ["/a", "/a/../b", undefined],
        ["/a/b", "/a", undefined],
      ] as const
    ) {
      assertEquals(pathWithin(folder, path), expected, `${folder} ${path}`);
      assertEquals(isWithin(path, folder), expected !== undefined);
    }
  },
);
