import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { ToolRefusal } from "../define_tool.ts";
import { context, makeWorkspace } from "../fixture_test.ts";
import { resolveInWorkspace } from "./resolve_in_workspace.ts";
import { globMatcher, walk, type WalkOptions } from "./walk.ts";
import { needs, NOT_ROOT } from "../../../tests/needs.ts";

async function walked(root: string, path: string, options: Partial<WalkOptions> = {}) {
  const place = await resolveInWorkspace(root, path);
  const entries = await Array.fromAsync(walk(place, { context, ...options }));
  return entries.map(({ relative, kind }) => kind === "link" ? `${relative}@` : relative);
}

const files = {
  "b.ts": "",
  "a/z.ts": "",
  "a/b/c.ts": "",
  "a.txt": "",
  ".hidden": "",
  ".git/config": "",
  "out/x.js": "",
  ".gitignore": "out/\n",
};

Deno.test("walk() yields entries depth first in order, without hidden and ignored ones", async () => {
  await using ws = await makeWorkspace(files);
  const skips: string[] = [];
  assertEquals(await walked(ws.root, ".", { onSkip: (why) => skips.push(why) }), [
    "a.txt",
    "a/",
    "a/b/",
    "a/b/c.ts",
    "a/z.ts",
    "b.ts",
  ]);
  assertEquals(skips, ["hidden", "hidden", "hidden", "hidden"]);
});

Deno.test("walk() yields hidden entries on request, and the content of .git never", async () => {
  await using ws = await makeWorkspace(files);
  assertEquals(await walked(ws.root, ".", { includeHidden: true, maxDepth: 2 }), [
    ".git/",
    ".gitignore",
    ".hidden",
    "a.txt",
    "a/",
    "a/b/",
    "a/z.ts",
    "b.ts",
    "out/",
    "out/x.js",
  ]);
});

Deno.test("walk() starts anywhere, a hidden or ignored folder included", async () => {
  await using ws = await makeWorkspace(files);
  assertEquals(await walked(ws.root, "a"), ["a/b/", "a/b/c.ts", "a/z.ts"]);
  assertEquals(await walked(ws.root, ".git"), [".git/config"]);
  assertEquals(await walked(ws.root, "out"), ["out/x.js"]);
});

Deno.test("walk() matches globs from the start folder and yields no folders then", async () => {
  await using ws = await makeWorkspace(files);
  assertEquals(await walked(ws.root, ".", { glob: "*.ts" }), ["a/b/c.ts", "a/z.ts", "b.ts"]);
  assertEquals(await walked(ws.root, "a", { glob: "b/*" }), ["a/b/c.ts"]);
});

Deno.test("walk() does not follow links", async () => {
  await using ws = await makeWorkspace({ "a/f": "" });
  await Deno.symlink("..", ws.at("a/up"));
  await Deno.symlink(ws.outside, ws.at("out"));
  assertEquals(await walked(ws.root, "."), ["a/", "a/f", "a/up@", "out@"]);
});

Deno.test("walk() stops when aborted", async () => {
  await using ws = await makeWorkspace(files);
  const signal = AbortSignal.abort(new Error("stopped"));
  await assertRejects(() => walked(ws.root, ".", { context: { ...context, signal } }), Error, "stopped");
});

Deno.test({
  ...needs(NOT_ROOT, "walk() passes over folders that it can't read"),
  async fn() {
    await using ws = await makeWorkspace({ "a/f": "", "b": "" });
    await Deno.chmod(ws.at("a"), 0);
    const skips: string[] = [];
    assertEquals(await walked(ws.root, ".", { onSkip: (why) => skips.push(why) }), ["a/", "b"]);
    assertEquals(skips, ["unreadable"]);
    await Deno.chmod(ws.at("a"), 0o700);
  },
});

const paths = ["a.ts", "b.tsx", "src/a.ts", "src/deep/a.ts", "src/deep/b.md", "other/a.ts"];
const matching = (glob: string) => paths.filter(globMatcher(glob));

Deno.test("globMatcher() matches a glob without a slash against names in any folder", () => {
  assertEquals(matching("a.ts"), ["a.ts", "src/a.ts", "src/deep/a.ts", "other/a.ts"]);
  assertEquals(matching("*.{tsx,md}"), ["b.tsx", "src/deep/b.md"]);
  assertEquals(matching("[ab].ts?"), ["b.tsx"]);
});

Deno.test("globMatcher() matches a glob with a slash against the whole path", () => {
  assertEquals(matching("src/*.ts"), ["src/a.ts"]);
  assertEquals(matching("./src/*.ts"), ["src/a.ts"]);
  assertEquals(matching("src/**/*.ts"), ["src/a.ts", "src/deep/a.ts"]);
  assertEquals(matching("**/a.ts"), ["a.ts", "src/a.ts", "src/deep/a.ts", "other/a.ts"]);
  assertEquals(matching("{src,other}/a.ts"), ["src/a.ts", "other/a.ts"]);
  assertEquals(matching("{src/deep,other}/a.ts"), ["src/deep/a.ts", "other/a.ts"]);
});

Deno.test("globMatcher() matches open brackets and braces literally, and rejects invalid sets", () => {
  for (const glob of ["{a/b", "[a/b]", "a\\\\b"]) {
    const path = glob.replaceAll("\\\\", "\\");
    assertEquals([glob, globMatcher(glob)(path), globMatcher(glob)("a/b")], [glob, true, false]);
  }
  assertEquals(["]", "a", "b"].map(globMatcher("[]a]")), [true, true, false]);
  for (const glob of ["[b-a]", "a[]"]) {
    assertThrows(() => globMatcher(glob), ToolRefusal, `the glob "${glob}" is not valid.`);
  }
});

Deno.test("globMatcher() takes time linear in the path", () => {
  // A backtracking engine would take very long.
  assertEquals(globMatcher(`${"*a".repeat(20)}b`)("a".repeat(250)), false);
});
