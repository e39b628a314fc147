/**
 * A machine with a home folder, projects, a provider and fake agents. Contains no tests.
 *
 * @module
 */
import { profileNamed } from "@tare/planner";
import { simulator } from "@tare/simulator";
import { fromFileUrl, join } from "@std/path";
import { denoArgs } from "../../packages/cli/tasks.ts";
import { withoutInstalls } from "../../packages/app/server_process_fixture_test.ts";

const INFO = await new Deno.Command(Deno.execPath(), { args: ["info", "--json"] }).output();
const { denoDir: DENO_DIR } = JSON.parse(new TextDecoder().decode(INFO.stdout));

/** Folder for coverage, if it is requested. */
const COVERAGE = Deno.env.get("DENO_COVERAGE_DIR");

/** Output and exit code of a program. */
export interface Ended {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** A running command. */
export interface Running {
  readonly pid: number;
  /** Resolves once it has printed this. */
  readonly prints: (what: string) => Promise<void>;
  readonly kill: (signal: Deno.Signal) => void;
  readonly ended: Promise<Ended>;
}

/** A user's machine. */
export interface Machine extends AsyncDisposable {
  readonly home: string;
  readonly env: Readonly<Record<string, string>>;
  /** Keys of the provider's requests, in order. */
  readonly keys: readonly string[];
  /** Starts a command in a folder of the home folder. */
  readonly start: (command: string, args: readonly string[], folder?: string) => Running;
  /** Runs a command to its end. */
  readonly run: (command: string, args: readonly string[], folder?: string) => Promise<Ended>;
  readonly read: (path: string) => Promise<string>;
  readonly write: (path: string, text: string) => Promise<void>;
}

/** Installed agents, all `fake_agent.js`. */
const PROGRAMS = ["claude", "codex", "cline", "cn", "openclaw", "opencode", "kilo", "pi"];

/** Creates a machine. */
export async function newMachine(more: Readonly<Record<string, string>> = {}): Promise<Machine> {
  const home = await Deno.realPath(await Deno.makeTempDir());
  const bin = join(home, "bin");
  for (const folder of ["bin", "a", "b"]) await Deno.mkdir(join(home, folder));
  const agent = fromFileUrl(new URL("../fake_agent.js", import.meta.url));
  const script = `#!/bin/sh\nexec "${Deno.execPath()}" run --quiet --allow-all "${agent}" "$@"\n`;
  for (const name of PROGRAMS) await Deno.writeTextFile(join(bin, name), script, { mode: 0o755 });
  const keys: string[] = [];
  const provider = simulator({
    model: { "gpt-5": () => ({ content: "Hello." }), "claude-opus-4-8": () => ({ content: "Hello." }) },
    tokenizer: { encode: (text) => Array.from(text, (letter) => letter.charCodeAt(0)) },
    profile: profileNamed("openai"),
  });
  const upstream = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
    // The server also lists models.
    if (request.method === "POST") {
      keys.push(request.headers.get("x-api-key") ?? request.headers.get("authorization") ?? "");
    }
    return provider.fetch(request);
  });
  const url = `http://127.0.0.1:${upstream.addr.port}`;
  const env = {
    ...{ PATH: `${bin}:${Deno.env.get("PATH")}`, DENO_DIR, NO_COLOR: "1" },
    ...(COVERAGE !== undefined && { DENO_COVERAGE_DIR: COVERAGE }),
    ...{ HOME: home, XDG_DATA_HOME: join(home, "data"), XDG_CONFIG_HOME: join(home, ".config") },
    ...{ OPENAI_BASE_URL: `${url}/v1`, ANTHROPIC_BASE_URL: url },
    ...{ OPENAI_API_KEY: "their-key", ANTHROPIC_API_KEY: "their-key" },
    ...more,
  };
  const start = (command: string, args: readonly string[], folder = "a"): Running => {
    const child = new Deno.Command(Deno.execPath(), {
      args: [...denoArgs(command), ...args],
      env: { ...env, INIT_CWD: join(home, folder) },
      clearEnv: true,
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    let out = "";
    const waiting: {
      readonly what: string;
      readonly done: () => void;
      readonly fail: (why: Error) => void;
    }[] = [];
    const read = async () => {
      for await (const piece of child.stdout.pipeThrough(new TextDecoderStream())) {
        out += piece;
        for (const { what, done } of waiting) if (out.includes(what)) done();
      }
      for (const { what, fail } of waiting) fail(new Error(`It ended before it said ${what}: ${out}`));
    };
    const ended = Promise.all([child.status, new Response(child.stderr).text(), read()])
      .then(([{ code }, err]) => ({ code, out, err: withoutInstalls(err) }));
    return {
      pid: child.pid,
      prints: (what) =>
        out.includes(what)
          ? Promise.resolve()
          : new Promise((done, fail) => waiting.push({ what, done, fail })),
      kill: (signal) => child.kill(signal),
      ended,
    };
  };
  return {
    home,
    env,
    keys,
    start,
    run: (...given) => start(...given).ended,
    read: (path) => Deno.readTextFile(join(home, path)),
    async write(path, text) {
      await Deno.mkdir(join(home, path, ".."), { recursive: true });
      await Deno.writeTextFile(join(home, path), text);
    },
    async [Symbol.asyncDispose]() {
      await upstream.shutdown();
      await Deno.remove(home, { recursive: true });
    },
  };
}
