import { assertEquals, assertGreater } from "@std/assert";
import { ServerSentEventParseStream } from "@std/http";
import { join } from "@std/path";
import type { LoopEvent, TurnLedger } from "@tare/loop";
import { openaiModel } from "@tare/loop/openai";
import { contentText } from "@tare/messages";
import { loadTokenizer } from "@tare/tiktoken";
import { type Mechanisms, profileNamed } from "@tare/planner";
import { agentHandler, ALLOW_EVERYTHING } from "@tare/server";
import { type SimulatedModel, simulator } from "@tare/simulator";
import { memoryStore } from "@tare/session/sqlite";
import { workspaceTools } from "@tare/tools";

const OFF: Mechanisms = {
  context: false,
  prune: false,
  schemas: false,
  truncate: false,
  references: false,
  normalization: false,
};

const QUESTIONS: readonly (readonly [tool: string, args: Record<string, string>][])[] = [
  [["read_file", { path: "a.txt" }], ["read_file", { path: "b.txt" }]],
  [["read_file", { path: "c.txt" }], ["read_file", { path: "d.txt" }]],
  [["shell", { command: "cat huge.txt" }], ["read_file", { path: "e.txt" }], ["read_file", {
    path: "f.txt",
  }]],
];

const caller: SimulatedModel = ({ messages }) => {
  const start = messages.findLastIndex(({ role }) => role === "user");
  const calls: typeof QUESTIONS[number] = JSON.parse(contentText(messages[start]?.content));
  const results = messages.slice(start).filter(({ role }) => role === "tool");
  const next = calls[results.length];
  if (!next) {
    return { content: results.map(({ content }) => contentText(content).match(/\w+\W*$/)?.[0]).join(" ") };
  }
  return {
    tool_calls: [{ type: "function", function: { name: next[0], arguments: JSON.stringify(next[1]) } }],
  };
};

function prose(tokens: number, last: string): string {
  const line = `The harbour of ${last} was quiet that morning and nobody spoke.\n`;
  return line.repeat(Math.ceil(tokens / 14)) + last;
}

async function makeWorkspace(): Promise<string> {
  const workspace = await Deno.makeTempDir();
  for (const name of "abcdef") {
    await Deno.writeTextFile(join(workspace, `${name}.txt`), prose(5_000, `${name}last`));
  }
  await Deno.writeTextFile(join(workspace, "huge.txt"), prose(12_000, "hugelast"));
  return workspace;
}

interface Outcome {
  readonly answers: readonly string[];
  readonly ledgers: readonly TurnLedger[];
  readonly promptTokens: number;
}

async function play(mechanisms: Mechanisms, workspace: string, windowTokens = 40_000): Promise<Outcome> {
  const tokenizer = await loadTokenizer();
  const provider = simulator({ model: caller, tokenizer });
  const upstream = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, provider.fetch);
  const agent = agentHandler({
    models: {
      model: (model) => openaiModel({ model, baseURL: `http://127.0.0.1:${upstream.addr.port}/v1` }),
      defaultModel: "caller",
      countTokens: () => Promise.resolve(tokenizer.count),
      profile: profileNamed("openai"),
      windowTokens,
    },
    approvals: { rules: ALLOW_EVERYTHING },
    tools: workspaceTools({ workspace }),
    store: memoryStore(),
    prompt: {
      policy: "classic",
      mechanisms,
    },
  });
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    (request) => agent.fetch(request),
  );
  const post = (path: string, body: unknown) =>
    fetch(`http://127.0.0.1:${server.addr.port}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  try {
    const { id } = await (await post("/tare/v1/sessions", {})).json();
    const ends: Extract<LoopEvent, { type: "turn_end" }>[] = [];
    for (const calls of QUESTIONS) {
      const response = await post(`/tare/v1/sessions/${id}/turns`, { input: JSON.stringify(calls) });
      for await (const { data } of response.body!.pipeThrough(new ServerSentEventParseStream())) {
        const event: LoopEvent = JSON.parse(data!);
        if (event.type === "turn_end") ends.push(event);
      }
    }
    return {
      answers: ends.map(({ text }) => text),
      ledgers: ends.map(({ ledger }) => ledger),
      promptTokens: provider.requests.reduce((sum, request) => sum + request.promptTokens, 0),
    };
  } finally {
    await agent.close();
    await server.shutdown();
    await upstream.shutdown();
  }
}

function sum(ledgers: readonly TurnLedger[], figure: (ledger: TurnLedger) => number): number {
  return ledgers.reduce((total, ledger) => total + figure(ledger), 0);
}

Deno.test("mechanisms: each one saves what its ledger reports, over HTTP, with the same answers", async (t) => {
  const workspace = await makeWorkspace();
  try {
    const off = await play(OFF, workspace);
    assertEquals(off.answers, ["alast blast", "clast dlast", "hugelast elast flast"]);
    assertEquals(sum(off.ledgers, (ledger) => ledger.promptTokens), off.promptTokens);
    assertEquals(off.ledgers.map(({ saved }) => saved), [
      { context: 0, schemas: 0, prune: 0, truncate: 0, references: 0, normalization: 0 },
      { context: 0, schemas: 0, prune: 0, truncate: 0, references: 0, normalization: 0 },
      { context: 0, schemas: 0, prune: 0, truncate: 0, references: 0, normalization: 0 },
    ]);
    for (const mechanism of ["context", "prune", "schemas", "truncate"] as const) {
      await t.step(mechanism, async () => {
        // In a full window old turns would be replaced by a summary, which has a request of its own.
        const windowTokens = mechanism === "context" ? 200_000 : 40_000;
        const on = await play({ ...OFF, [mechanism]: true }, workspace, windowTokens);
        const saved = sum(on.ledgers, (ledger) => ledger.saved[mechanism] ?? 0);
        assertEquals(on.answers, off.answers);
        assertEquals(sum(on.ledgers, (ledger) => ledger.promptTokens), on.promptTokens);
        assertEquals(off.promptTokens - on.promptTokens, saved);
        assertGreater(saved, 0.02 * off.promptTokens);
      });
    }
    await t.step("all together", async () => {
      const on = await play({
        context: true,
        prune: true,
        schemas: true,
        truncate: true,
        references: true,
        normalization: true,
      }, workspace);
      const saved = sum(on.ledgers, ({ saved }) => Object.values(saved).reduce((a, b) => a + b, 0));
      assertEquals(on.answers, off.answers);
      assertEquals(off.promptTokens - on.promptTokens, saved);
      assertGreater(saved, 0.2 * off.promptTokens);
    });
  } finally {
    await Deno.remove(workspace, { recursive: true });
  }
});
