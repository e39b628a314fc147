import { dirname } from "@std/path";
import { callOk, makeWorkspace } from "../fixture_test.ts";
import { shellTool } from "../shell/shell_tool.ts";
import { sandboxOf } from "./sandbox_fixture_test.ts";

const ws = await makeWorkspace({ ".git/HEAD": "ref: refs/heads/main\n" });
const sandbox = await sandboxOf(ws.root);
globalThis.addEventListener("unload", () => Deno.removeSync(dirname(ws.root), { recursive: true }));

const group = "one command";
const env = { PATH: "/usr/local/bin:/usr/bin:/bin" };
if ("why" in sandbox) throw new Error(`Cannot measure the sandbox: there is none, because ${sandbox.why}.`);
const without = shellTool({ workspace: ws.root, env });
const within = shellTool({ workspace: ws.root, env, sandbox });

Deno.bench(
  "without a sandbox",
  { group, baseline: true },
  async () => void await callOk(without, { command: ":" }),
);
Deno.bench("in a sandbox", { group }, async () => void await callOk(within, { command: ":" }));
Deno.bench(
  "outside, alone",
  { group },
  async () => void await callOk(within, { command: ":", outside: "a" }),
);
