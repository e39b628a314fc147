import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { loadTokenizer } from "@tare/tiktoken";
import type { Message, ToolDefinition } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { promptCost } from "@tare/planner/internal/parts";
import { type SimulatedModel, simulator, toolCall } from "@tare/simulator";
import { ownerOf } from "../crash/owner.ts";
import { startServerProcess } from "../crash/server_process.ts";
import type { Agent } from "./agent.ts";
import { CLAUDE_CODE } from "./drivers/claude_code.ts";
import { continueCli } from "./drivers/continue.ts";
import { OPENCODE } from "./drivers/opencode.ts";
import { serverIn, withServer } from "./many_tools_server.ts";
import { play, type Scenario } from "./play.ts";
import { runProgram } from "./program.ts";

const PROFILE = profileNamed("anthropic-5m");
const NUMBERS = Array.from({ length: 60 }, (_, at) => at);

const TOOLS = NUMBERS.map((at): ToolDefinition => ({
  type: "function",
  function: {
    name: `room_${at}`,
    description: `Looks after room ${at} of the house, and says what became of it. `.repeat(20),
    parameters: {
      type: "object",
      properties: { id: { type: "string", description: "What of the room is meant. ".repeat(10) } },
    },
  },
}));

/** Calls of the model in order; it searches for tools that aren't visible. */
const PLAN = Array.from({ length: 20 }, (_, at) => at % 5 === 2 ? `mcp__hub__room_${at % 2}` : "Bash");

const planned: SimulatedModel = ({ messages, tools }) => {
  const done = messages.filter(({ role }) => role === "tool").length;
  const name = PLAN[done];
  const foundTools = (message: Message) => "findsTools" in message ? message.findsTools ?? [] : [];
  const names = [...tools, ...messages.flatMap(foundTools)].map((tool) => tool.function.name);
  if (!names.includes("Bash")) return { content: "A title" };
  if (name === undefined) return { content: `Done with ${done} calls.` };
  if (!names.includes(name)) {
    const query = name.replaceAll(/\D+/g, " room ");
    return { content: "I look for it.", tool_calls: [toolCall("tool_search_tool_bm25", { query })] };
  }
  const args = name === "Bash" ? { command: `echo ${done}`, description: "Counts" } : { id: "door" };
  return { content: `Step ${done}.`, tool_calls: [toolCall(name, args)] };
};

async function work(through: boolean) {
  const folder = await Deno.makeTempDir({ prefix: "agent-defer-" });
  const { encode } = await loadTokenizer();
  const provider = simulator({ model: planned, tokenizer: { encode }, profile: PROFILE });
  const sent: { readonly tools?: readonly Record<string, unknown>[]; readonly messages: unknown }[] = [];
  const upstream = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    if (request.method === "HEAD") return new Response();
    const { pathname } = new URL(request.url);
    if (pathname.endsWith("/messages")) sent.push(await request.clone().json());
    return await provider.fetch(request);
  });
  const url = `http://127.0.0.1:${upstream.addr.port}`;
  try {
    const [home, workspace, data] = ["home", "workspace", "data"].map((name) => `${folder}/${name}`);
    for (const path of [home, workspace, data]) await Deno.mkdir(path!);
    const [command, ...args] = await serverIn(folder, TOOLS);
    const servers = { mcpServers: { hub: { command, args } } };
    await Deno.writeTextFile(`${folder}/mcp.json`, JSON.stringify(servers));
    const flags = ["--port=0", `--data=${data}`, `--workspace=${workspace}`, `--messages-url=${url}`];
    const server = through ? await startServerProcess([...flags, "--defer-tools=on"]) : undefined;
    const place = { home: home!, workspace: workspace!, url: server?.url ?? url, windowTokens: 200_000 };
    const { code, output } = await runProgram({
      program: "claude",
      args: [
        ...["--print", "--allowedTools", "Bash,mcp__hub", "--model", "claude-sonnet-5"],
        ...["--mcp-config", `${folder}/mcp.json`, "--", "Look after the house."],
      ],
    }, {
      cwd: workspace!,
      // Otherwise Claude Code defers and searches tools itself.
      env: {
        ...{ HOME: home!, TMPDIR: folder, ANTHROPIC_BASE_URL: place.url, ENABLE_TOOL_SEARCH: "false" },
        ...CLAUDE_CODE.quiet,
        ...await CLAUDE_CODE.configure(place),
      },
    });
    const ledger = server &&
      await (await fetch(`${server.url}/tare/v1/ledger`, { headers: ownerOf(data!) })).json();
    await server?.kill();
    const cost = provider.requests.reduce((sum, request) => sum + promptCost(PROFILE, request), 0);
    const turns = provider.requests.filter(({ tools }) => tools.length > 1);
    const perCall = turns.reduce((sum, { promptTokens }) => sum + promptTokens, 0) / turns.length;
    return { code, output, cost, perCall: Math.round(perCall), sent, ledger };
  } finally {
    await upstream.shutdown();
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("deferred tools: claude code works with a server's 60 deferred tools as it does without the gateway", async (test) => {
  const direct = await work(false);
  assertEquals([direct.code, direct.output.trim()], [0, `Done with ${PLAN.length} calls.`]);
  const { code, output, cost, perCall, sent, ledger } = await work(true);
  assertEquals([code, output.trim()], [0, direct.output.trim()]);
  const deferred = sent.map(({ tools = [] }) => tools.filter((tool) => tool.defer_loading).length);
  assertEquals(new Set(deferred.filter((count) => count > 0)), new Set([60]));
  assertEquals(JSON.stringify(sent.at(-1)).match(/"server_tool_use"/g)?.length, 2);
  const share = (cost / direct.cost).toFixed(2);
  await test.step(`${perCall} tokens a call in place of ${direct.perCall}, for ${share} of the cost`, () => {
    assert(perCall < 0.75 * direct.perCall);
  });
  const { costUnits, baselineCostUnits } = ledger.planned;
  await test.step(`booked ${Math.round(costUnits)} of ${Math.round(cost)}, claimed ${Math.round(baselineCostUnits)} for ${Math.round(direct.cost)}`, () => {
    assertAlmostEquals(costUnits, cost, 0.01 * cost);
    assertAlmostEquals(baselineCostUnits, direct.cost, 0.05 * direct.cost);
  });
});

/** Agents that list all tools of their MCP servers, with the names that they give them. */
const LISTING: readonly (readonly [Agent, string])[] = [
  [OPENCODE, "hub_room_"],
  [continueCli("responses"), "room_"],
];

const SCENARIO: Scenario = {
  name: "many tools",
  plans: {
    TOOLS: {
      steps: Array.from(
        { length: 20 },
        (_, at) => at % 5 === 2 ? [`echo ${at}`, { discover: at % 2 }] : [`echo ${at}`],
      ),
      facts: [],
      report: "report.txt",
    },
  },
  actions: [{ prompt: "Follow plan:TOOLS." }],
  files: {},
};

for (const [agent, prefix] of LISTING) {
  Deno.test(`tool pair: ${agent.name} works with a server's 60 deferred tools as it does without the gateway`, async (test) => {
    const discoveries = [0, 1].map((at) => ({ name: `${prefix}${at}`, args: { id: "door" } }));
    const served = withServer({ ...agent, tools: { ...agent.tools, discoveries } }, TOOLS)!;
    const direct = await play(served, SCENARIO, { through: false });
    const through = await play(served, SCENARIO, { through: true });
    const report = ({ files }: typeof direct) => files["report.txt"];
    assertEquals(report(through), report(direct));
    assert(report(direct) !== undefined, direct.ended.map(({ output }) => output).join("\n"));
    assertEquals(through.ended.map(({ code }) => code), [0]);
    const working = through.calls.filter(({ turn }) => turn.tools.length > 0);
    assertEquals(working.filter(({ turn }) => turn.tools.some((name) => name.startsWith(prefix))), []);
    const answers = through.exchanges.map(({ answer }) => answer).join("\n");
    assert(!/find_tools|call_tool/.test(answers), "the client sees the pair");
    const costOf = ({ calls }: typeof direct) => calls.reduce((sum, { cost }) => sum + cost, 0);
    const share = (costOf(through) / costOf(direct)).toFixed(2);
    await test.step(`cost ${share} of what it costs directly`, () => {
      assert(costOf(through) < 0.75 * costOf(direct));
    });
    const { costUnits = NaN, baselineCostUnits = NaN } = through.ledger!.planned;
    const [paid, saved] = [Math.round(costOf(direct)), Math.round(baselineCostUnits)];
    await test.step(`claimed ${saved} for ${paid}`, () => {
      assertAlmostEquals(costUnits, costOf(through), 0.01 * costUnits);
      // The provider's count of definitions that it never receives is estimated.
      assertAlmostEquals(baselineCostUnits, costOf(direct), 0.05 * costOf(direct));
    });
  });
}
