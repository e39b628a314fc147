/**
 * Prints the size of each agent's first request as a Markdown table, and of some with an MCP server of many tools:
 * `deno run -A tests/agents/fronts.ts [--tools FILE] [AGENT…]`, where FILE has a list `tools` of definitions.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import type { ToolDefinition } from "@tare/messages";
import { countMessageTokens, countToolTokens } from "@tare/messages/internal";
import { loadTokenizer } from "@tare/tiktoken";
import { type JsonReader, PROTOCOLS, readJsonAt, readRequest, readWireBody } from "@tare/wire/internal";
import type { Agent } from "./agent.ts";
import { AGENTS } from "./agents.ts";
import { withServer } from "./many_tools_server.ts";
import { play } from "./play.ts";

const SCENARIO = {
  name: "one request",
  plans: {},
  actions: [{ prompt: "Say hello." }],
  files: {},
};

const READER: JsonReader<never> = {
  read: (bytes, { read, ...span }) => ({ key: "", value: read(readJsonAt(bytes, span)) as never }),
};

const { values, positionals } = parseArgs({ options: { tools: { type: "string" } }, allowPositionals: true });
const { count } = await loadTokenizer();
const definitions: readonly ToolDefinition[] = values.tools === undefined
  ? []
  : JSON.parse(await Deno.readTextFile(values.tools)).tools;

async function row(agent: Agent, server: string): Promise<string> {
  const { calls } = await play(agent, SCENARIO, { through: false });
  const requests = calls.map(({ path, body }) => {
    const protocol = PROTOCOLS.find((one) => path.endsWith(one.path))!;
    const bytes = new TextEncoder().encode(JSON.stringify(body));
    const { tools = [], items } = readRequest(readWireBody(bytes), protocol, {
      items: READER,
      tools: READER,
    });
    const inFront = tools.filter((tool) => tool.inFront);
    const sum = (counts: readonly number[]) => counts.reduce((all, one) => all + one, 0);
    return {
      tools: inFront.length,
      deferred: tools.length - inFront.length,
      toolTokens: sum(inFront.map(({ definition }) => countToolTokens(definition, count))),
      otherTokens: sum(
        items.flatMap(({ parts }) => parts.map(({ message }) => countMessageTokens(message, count))),
      ),
    };
  });
  const first = requests.reduce((one, other) => other.toolTokens > one.toolTokens ? other : one);
  const { tools, deferred, toolTokens, otherTokens } = first;
  return `| ${[agent.name, server, tools, deferred, toolTokens, otherTokens].join(" | ")} |`;
}

console.log("| agent | server | tools | deferred | tokens of tools | other tokens |");
console.log("| --- | --- | --- | --- | --- | --- |");
for (const agent of AGENTS) {
  if (positionals.length > 0 && !positionals.includes(agent.name)) continue;
  console.log(await row(agent, "none"));
  const served = definitions.length > 0 ? withServer(agent, definitions) : undefined;
  if (served) console.log(await row(served, `${definitions.length} tools`));
}
