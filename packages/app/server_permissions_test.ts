import { assertEquals } from "@std/assert";
import { join } from "@std/path";
import type { Sandbox } from "@tare/tools/sandbox";
import { serverPermissions } from "./bootstrap.ts";
import { findPlaces } from "@tare/tools/internal/instructions";
import { readSettings, VARIABLES } from "./settings/settings.ts";

const permissions = (args: string[], environment: Record<string, string> = {}) =>
  serverPermissions(readSettings(args, environment));

Deno.test("serverPermissions() allows workspace and data folder, and the targets of links", async () => {
  const top = await Deno.realPath(await Deno.makeTempDir());
  try {
    await Deno.mkdir(join(top, "a,b"));
    await Deno.symlink(join(top, "a,b"), join(top, "link"));
    const flags = permissions(["--workspace", join(top, "link"), "--data", join(top, "none")]);
    const folders = [join(top, "link"), join(top, "a,,b"), join(top, "none")].join(",");
    assertEquals(flags, [
      "--no-prompt",
      "--allow-net=127.0.0.1:8787,127.0.0.1:0,api.anthropic.com:443",
      `--allow-read=${folders}`,
      `--allow-write=${folders}`,
      `--allow-env=${VARIABLES.join(",")},TARE_BOOTSTRAP`,
      "--ignore-env=OPENAI_CUSTOM_HEADERS,ANTHROPIC_CUSTOM_HEADERS,NODE_V8_COVERAGE",
      "--allow-run",
    ]);
  } finally {
    await Deno.remove(top, { recursive: true });
  }
});

Deno.test("serverPermissions() lets a server listen on its last port", () => {
  const settings = readSettings(["--workspace", "/", "--data", "/d"], {});
  const [, net] = serverPermissions(settings, { lastPort: 40_001 });
  const providers = "api.anthropic.com:443";
  assertEquals(net, `--allow-net=127.0.0.1:40001,127.0.0.1:8787,127.0.0.1:0,${providers}`);
});

Deno.test("serverPermissions() allows only the proxy's socket for the sandbox's hosts", () => {
  const sandbox: Sandbox = {
    ...{ by: "bubblewrap", program: "/usr/bin/bwrap", workspace: "/w", home: "/home" },
    ...{ system: [], mounted: [], hidden: [], readOnly: [], domains: ["docs.example"] },
    proxy: { socket: "/tmp/tare.sock", bridge: [], files: [] },
  };
  const settings = readSettings(["--workspace", "/", "--data", "/d"], {});
  const [, net, read, write, , , run] = serverPermissions(settings, { sandbox });
  assertEquals([net, read, write, run], [
    "--allow-net=127.0.0.1:8787,127.0.0.1:0,api.anthropic.com:443,unix:/tmp/tare.sock",
    "--allow-read=/,/d,/tmp/tare.sock",
    "--allow-write=/,/d,/tmp/tare.sock",
    "--allow-run=/usr/bin/bwrap",
  ]);
});

Deno.test("serverPermissions() allows the files of the profile and of the rules", async () => {
  const path = await Deno.makeTempFile();
  try {
    await Deno.writeTextFile(path, '{"profile": "none"}');
    const [, , read, write] = permissions(["--profile", path]);
    assertEquals([read?.endsWith(`,${path}`), write?.endsWith(path)], [true, false]);
    await Deno.writeTextFile(path, "[]");
    const [, , both] = permissions(["--approvals", path]);
    assertEquals(both?.endsWith(`,${path}`), true);
  } finally {
    await Deno.remove(path);
  }
});

Deno.test("serverPermissions() allows instruction files, and no folder above the workspace", async () => {
  const top = await Deno.realPath(await Deno.makeTempDir());
  try {
    await Deno.mkdir(join(top, ".git"));
    await Deno.writeTextFile(join(top, ".git", "HEAD"), "ref: refs/heads/main\n");
    await Deno.mkdir(join(top, "w"));
    const settings = readSettings(["--workspace", join(top, "w"), "--data", join(top, "data")], {});
    const [, , read, write] = serverPermissions(settings, { places: findPlaces(join(top, "w")) });
    const names = ["AGENTS.md", "CLAUDE.md", ".github/copilot-instructions.md"];
    assertEquals(read?.replace("--allow-read=", "").replaceAll(`${top}/`, "").split(","), [
      ...["w", "data"],
      ...names,
      ...names.map((name) => `w/${name}`),
      ".git/HEAD",
    ]);
    assertEquals(write?.replace("--allow-write=", "").split(","), [join(top, "w"), join(top, "data")]);
  } finally {
    await Deno.remove(top, { recursive: true });
  }
});

Deno.test("serverPermissions() allows the file of the MCP servers, and the network to remote ones", async () => {
  const path = await Deno.makeTempFile();
  try {
    const mcpServers = {
      a: { command: "a" },
      b: { url: "https://b.example/mcp" },
      c: { url: "http://c:81/", disabled: true },
    };
    await Deno.writeTextFile(path, JSON.stringify({ mcpServers }));
    const [, net, read, write] = permissions(["--mcp", path]);
    assertEquals(net, "--allow-net=127.0.0.1:8787,127.0.0.1:0,api.anthropic.com:443,b.example:443");
    assertEquals([read?.endsWith(`,${path}`), write?.endsWith(path)], [true, false]);
  } finally {
    await Deno.remove(path);
  }
});

Deno.test("serverPermissions() allows network access only to its own address and its providers", () => {
  const net = (args: string[], environment: Record<string, string>) =>
    permissions(args, { TARE_MODEL: "m", ...environment })[1];
  assertEquals(
    net([], { OPENAI_API_KEY: "k" }),
    "--allow-net=127.0.0.1:8787,127.0.0.1:0,api.openai.com:443,api.anthropic.com:443",
  );
  assertEquals(
    net(["--host", "::1", "--port", "0"], { OPENAI_BASE_URL: "http://[::1]:11434/v1" }),
    "--allow-net=[::1]:0,[::1]:11434,api.anthropic.com:443",
  );
  assertEquals(
    net([], { OPENAI_BASE_URL: "http://models.example/v1", ANTHROPIC_BASE_URL: "http://claude.example" }),
    "--allow-net=127.0.0.1:8787,127.0.0.1:0,models.example:80,claude.example:80",
  );
  assertEquals(
    net([], { ANTHROPIC_API_KEY: "k" }),
    "--allow-net=127.0.0.1:8787,127.0.0.1:0,api.anthropic.com:443",
  );
});

Deno.test("serverPermissions() allows network access to webhook hosts", () => {
  const net = (TARE_WEBHOOK_HOSTS: string) => permissions([], { TARE_WEBHOOK_HOSTS })[1];
  assertEquals(net("hooks.example,[::1]:9000"), `${permissions([])[1]},hooks.example,[::1]:9000`);
  assertEquals(net("*"), "--allow-net");
});

Deno.test("serverPermissions() allows network access to the bucket's host", () => {
  const keys = { AWS_ACCESS_KEY_ID: "a", AWS_SECRET_ACCESS_KEY: "s" };
  const given = { TARE_DATABASE: "postgres://me@db.example/tare", ...keys };
  const net = (TARE_ARCHIVE: string) => permissions([], { ...given, TARE_ARCHIVE })[1]?.split(",").at(-1);
  assertEquals(net("s3://texts?region=eu-west-1"), "texts.s3.eu-west-1.amazonaws.com:443");
  assertEquals(net("s3://my.texts/a?region=us-east-2"), "s3.us-east-2.amazonaws.com:443");
  assertEquals(net("s3://texts?region=eu&endpoint=http://[::1]:9000"), "[::1]:9000");
});

Deno.test("serverPermissions() allows only the database's host or socket, and hides the variables of its client", async () => {
  const [, net, read, write, env, ignored] = permissions([]);
  const flags = (TARE_DATABASE: string) => permissions([], { TARE_DATABASE }).slice(1, 6);
  const hidden = `${ignored},PG*,NODE_PG_FORCE_NATIVE,USER,USERNAME`;
  const url = "postgres://me:planted@db.example/tare";
  assertEquals(flags(url), [`${net},db.example:5432`, read, write, env, hidden]);
  const socket = "/run/pg/.s.PGSQL.5433";
  assertEquals(flags("postgres://me@%2Frun%2Fpg:5433/tare"), [
    `${net},unix:${socket}`,
    `${read},${socket}`,
    `${write},${socket}`,
    env,
    hidden,
  ]);
  const file = await Deno.makeTempFile();
  await Deno.writeTextFile(file, url);
  assertEquals(flags(file), [`${net},db.example:5432`, `${read},${file}`, write, env, hidden]);
  await Deno.remove(file);
});
