import { assert, assertEquals, assertLess } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { startGreeter } from "../gateway/gateway.ts";
import type { Agent } from "./agent.ts";
import { compare } from "./compare.ts";
import { CLAUDE_CODE } from "./drivers/claude_code.ts";
import { CODEX } from "./drivers/codex.ts";
import { OPENCODE } from "./drivers/opencode.ts";
import { PI } from "./drivers/pi.ts";
import { runProgram } from "./program.ts";
import { STANDARD } from "./scenarios.ts";

const PAGE = Deno.readTextFileSync(new URL("../../docs/agents.md", import.meta.url));

/** Model that each agent knows for its own provider. */
const MODELS: readonly (readonly [Agent, string | undefined])[] = [
  [CODEX, undefined],
  [CLAUDE_CODE, undefined],
  [OPENCODE, "openai/gpt-5"],
  [PI, "openai/gpt-5"],
];

for (const [agent, model] of MODELS) {
  Deno.test(`docs/agents.md: the line for ${agent.name} puts the gateway in front of it`, async (test) => {
    const row = new RegExp(`^\\| ${agent.name} +\\| (.*?) +\\| \`(.*)\` +\\|$`, "mi").exec(PAGE);
    const [, where = "", line = ""] = row ?? [];
    const { direct, through } = await compare({
      ...agent,
      entry: {},
      async configure({ home, url }) {
        const own = line.replace("http://127.0.0.1:8787", url);
        assert(own !== line, `there is no address in ${line}`);
        const keys = { OPENAI_API_KEY: "key", CODEX_API_KEY: "key", ANTHROPIC_API_KEY: "key" };
        const path = /^`~(\/.*)\/(.*)`$/.exec(where);
        if (!path) return { ...keys, ...Object.fromEntries(own.split(" ").map((pair) => pair.split("="))) };
        await Deno.mkdir(`${home}${path[1]}`, { recursive: true });
        await Deno.writeTextFile(`${home}${path[1]}/${path[2]}`, own);
        return keys;
      },
      prompt: (text, options) => agent.prompt(text, { ...options, ...(model !== undefined && { model }) }),
    }, STANDARD);
    const cost = through / direct;
    await test.step(`cost ${cost.toFixed(2)} of what it costs directly`, () => assertLess(cost, 0.75));
  });
}

Deno.test("docs/own_loop.md: the example of Claude's Agent SDK calls the gateway and gets an answer", async () => {
  const page = Deno.readTextFileSync(new URL("../../docs/own_loop.md", import.meta.url));
  const [, example = ""] = /```ts ignore\n([^`]*claude-agent-sdk[^`]*)```/.exec(page) ?? [];
  await using gateway = await startGreeter();
  const script = example.replace("http://127.0.0.1:8787", gateway.baseURL.replace("/v1", ""));
  assert(script !== example, "the page shows no address");
  const home = await Deno.makeTempDir();
  const folder = fromFileUrl(new URL("programs", import.meta.url));
  const path = await Deno.makeTempFile({ dir: folder, suffix: ".mjs" });
  try {
    await Deno.writeTextFile(path, script);
    const env = { HOME: home, ANTHROPIC_API_KEY: "key", ...CLAUDE_CODE.quiet };
    const { code, output } = await runProgram({ program: "node", args: [path] }, { cwd: home, env });
    assertEquals([code, output.trim()], [0, "Hello."]);
  } finally {
    await Deno.remove(path);
    await Deno.remove(home, { recursive: true });
  }
});
