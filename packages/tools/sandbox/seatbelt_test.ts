import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { type Sandbox, sandboxed } from "./sandbox.ts";

const SANDBOX: Sandbox = {
  by: "seatbelt",
  program: "/usr/bin/sandbox-exec",
  workspace: "/Users/me/project",
  home: "/Users/me",
  system: [],
  mounted: [{ path: "/opt/tools", at: "/opt/tools" }],
  hidden: [{ path: "/Users/me/.ssh", isFolder: true }],
  readOnly: ["/Users/me/project/.tare"],
  domains: [],
};

Deno.test("sandboxed() confines a command of macOS by a profile that denies by default", () => {
  const command = ["/bin/sh", "-c", "make"];
  const started = sandboxed(SANDBOX, { command, cwd: SANDBOX.workspace, folders: ['/Users/me/a "b"'] });
  assertEquals([started.program, started.args[0], started.endsWhole], [SANDBOX.program, "-p", false]);
  assertEquals(started.args.slice(-command.length), command);
  const profile = started.args[1]!.split("\n");
  assertEquals(profile.slice(0, 2), ["(version 1)", "(deny default)"]);
  const written = profile.find((line) => line.startsWith("(allow file-write* "))!;
  assertStringIncludes(written, '(subpath "/Users/me/project")');
  assertStringIncludes(written, '(subpath "/Users/me/a \\"b\\"")');
  const read = profile.find((line) => line.startsWith("(allow file-read* "))!;
  assert(!read.includes(".ssh") && !read.includes('(subpath "/Users/me")'), read);
  // The last matching rule wins.
  const refused = profile.slice(profile.indexOf(written) + 1).filter((line) => line.startsWith("(deny "));
  assertEquals([refused[0], refused.at(-1)], [
    '(deny file-write* (subpath "/Users/me/project/.git") (subpath "/Users/me/project/.tare"))',
    '(deny file-read* file-write* (subpath "/Users/me/.ssh"))',
  ]);
});

Deno.test("sandboxed() starts an approved command of macOS outside of the sandbox as it is", () => {
  const command = ["/bin/sh", "-c", "make"];
  const { program, args } = sandboxed(SANDBOX, { command, cwd: SANDBOX.workspace, isOutside: true });
  assertEquals([program, ...args], command);
});
