import { openaiModel } from "@tare/loop/openai";
import { anthropicModel } from "@tare/loop/anthropic";
import { programTool } from "@tare/loop/programs";
import { memoryStore } from "@tare/conversation";
import { contentText, type Message, type Tool } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { agentHandler, ALLOW_EVERYTHING, type SessionEvent } from "@tare/server";
import { type SimulatedModel, simulator, toolCall } from "@tare/simulator";
import { loadTokenizer } from "@tare/tiktoken";
import { seeded } from "../seeded.ts";
import { word } from "../words.ts";

/** How a model goes about a task: call after call, all calls of a kind in one step, or by a program. */
export const WAYS = ["one by one", "at once", "program"] as const;

export type Way = typeof WAYS[number];

/** Something to find or change, and how. */
interface Task {
  readonly name: string;
  readonly tools: readonly Tool[];
  /** The calls of each round: those of the next are known once these have results. */
  readonly rounds: readonly ((results: readonly string[]) => readonly Call[])[];
  /** What is said at the end, by the results of the first round, or by what the program printed. */
  readonly answer: (results: readonly string[]) => string;
  /** The body of a program that prints the answer. */
  readonly program: string;
}

type Call = readonly [name: string, args: Readonly<Record<string, unknown>>];

const FILES = 24;
const RECORDS = 40;
const EDITED = 12;

function tool(name: string, more: Pick<Tool, "run"> & Partial<Tool>): Tool {
  const parameters = { type: "object", properties: {} };
  return { definition: { type: "function", function: { name, description: "", parameters } }, ...more };
}

function numbers(count: number): readonly number[] {
  return Array.from({ length: count }, (_, at) => at);
}

/** Tasks like those of every day, from made texts. */
export function tasks(seed: number = 1): readonly Task[] {
  const random = seeded(seed);
  const words = (count: number) => numbers(count).map(() => word(random)).join(" ");
  const files = numbers(FILES).map((n) =>
    `${words(200)}${n % 5 === 0 ? " deprecatedCall()" : ""} ${words(100)}`
  );
  const records = numbers(RECORDS).map((n) =>
    JSON.stringify({
      id: n,
      state: n % 7 === 0 ? "open" : "closed",
      title: words(8),
      body: words(250),
      votes: n * 3,
    })
  );
  const found = (results: readonly string[]) =>
    results.flatMap((text, at) => text.includes("deprecatedCall()") ? [`f${at}.ts`] : []).join(" ");
  const open = (results: readonly string[]) =>
    results.map((text) => JSON.parse(text)).filter(({ state }) => state === "open")
      .map(({ id, votes }) => `${id}:${votes}`).join(" ");
  const read = tool("read", { stance: "rederivable", run: ({ n }) => files[Number(n)]! });
  return [
    {
      name: `find a word in ${FILES} files`,
      tools: [read],
      rounds: [() => numbers(FILES).map((n) => ["read", { n }])],
      answer: found,
      program: `
        const texts = await Promise.all(Array.from({ length: ${FILES} }, (_, n) => tools.read({ n })));
        print(texts.flatMap((text, n) => text.includes("deprecatedCall()") ? ["f" + n + ".ts"] : []).join(" "));
      `,
    },
    {
      name: `what is open of ${RECORDS} records`,
      tools: [tool("get_issue", { stance: "rederivable", run: ({ n }) => records[Number(n)]! })],
      rounds: [() => numbers(RECORDS).map((n) => ["get_issue", { n }])],
      answer: open,
      program: `
        const open = [];
        for (let n = 0; n < ${RECORDS}; n++) {
          const { id, state, votes } = JSON.parse(await tools.get_issue({ n }));
          if (state === "open") open.push(id + ":" + votes);
        }
        print(open.join(" "));
      `,
    },
    {
      name: `read and change ${EDITED} files`,
      tools: [read, tool("edit", { writes: "path", run: ({ path }) => `Changed ${path}: 1 line.` })],
      rounds: [
        () => numbers(EDITED).map((n) => ["read", { n }]),
        (texts) =>
          texts.flatMap((text, n): Call[] =>
            text.includes("deprecatedCall()") ? [["edit", { path: `f${n}.ts`, old: "deprecatedCall()" }]] : []
          ),
      ],
      answer: found,
      program: `
        const changed = [];
        for (let n = 0; n < ${EDITED}; n++) {
          if (!(await tools.read({ n })).includes("deprecatedCall()")) continue;
          await tools.edit({ path: "f" + n + ".ts", old: "deprecatedCall()" });
          changed.push("f" + n + ".ts");
        }
        print(changed.join(" "));
      `,
    },
  ];
}

/** What a task took. */
export interface Measured {
  readonly calls: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** What the prompts cost. */
  readonly tokenUnits: number;
  /** Tokens of results that no prompt held, by programs. */
  readonly keptTokens: number;
  readonly answer: string;
}

/** A model that goes about this task in this way. What it has read it knows, whatever leaves its prompt. */
function worker({ rounds, answer, program }: Task, way: Way): SimulatedModel {
  const results: string[][] = rounds.map(() => []);
  let todo: Call[] = [];
  let round = -1;
  return ({ messages }) => {
    const fresh = messages.slice(messages.findLastIndex(({ role }) => role === "assistant") + 1);
    const came = fresh.flatMap((message: Message) =>
      message.role === "tool" ? [contentText(message.content)] : []
    );
    if (way === "program") {
      if (came.length > 0) return { content: came[0]!.split("\n\n[Written: ")[0]! };
      return { tool_calls: [toolCall("run_program", { code: program })] };
    }
    results[round]?.push(...came);
    while (todo.length === 0 && round + 1 < rounds.length) {
      todo = [...rounds[++round]!(results[round - 1] ?? [])];
    }
    const next = todo.splice(0, way === "at once" ? todo.length : 1);
    if (next.length === 0) return { content: answer(results[0]!) };
    return { tool_calls: next.map(([name, args]) => toolCall(name, args)) };
  };
}

/** Plays a task through the server, at a simulated provider with a faithful cache. */
export async function measureTask(task: Task, way: Way, profileName: string): Promise<Measured> {
  const tokenizer = await loadTokenizer();
  const profile = profileNamed(profileName);
  let nowMs = 0;
  const provider = simulator({ model: worker(task, way), tokenizer, profile, now: () => nowMs });
  const isMessages = profileName.startsWith("anthropic");
  const options = {
    baseURL: isMessages ? "http://provider" : "http://provider/v1",
    apiKey: "key",
    fetch: (url: string | URL | Request, init?: RequestInit) => {
      nowMs += 5_000;
      return provider.fetch(new Request(url, init));
    },
  };
  const agent = agentHandler({
    model: (model) =>
      isMessages
        ? anthropicModel({ model, cacheTtlMs: profile.ttlMs, ...options })
        : openaiModel({ model, ...options }),
    defaultModel: "m",
    tools: way === "program" ? [...task.tools, programTool()] : task.tools,
    approvals: { rules: ALLOW_EVERYTHING },
    store: memoryStore({ now: () => nowMs }),
    countTokens: () => Promise.resolve(tokenizer.count),
    profile,
    windowTokens: 200_000,
  });
  const send = async (path: string, body?: object) =>
    await (await agent.fetch(
      new Request(`http://localhost/v1/sessions${path}`, {
        ...(body && { method: "POST", body: JSON.stringify(body) }),
        headers: { "content-type": "application/json" },
      }),
    )).text();
  const { id } = JSON.parse(await send("", { instructions: "You do what is asked." }));
  const text = await send(`/${id}/turns`, { input: task.name });
  const events = text.split("\n").flatMap((line): SessionEvent[] =>
    line.startsWith("data: ") ? [JSON.parse(line.slice(6))] : []
  );
  const end = events.at(-1);
  if (end?.type !== "turn_end" || end.reason !== "completed") {
    throw new Error(`Cannot measure ${task.name}: its turn ended otherwise. ${text.slice(-1_000)}`);
  }
  await agent.close();
  const keptTokens = events.reduce(
    (sum, event) => sum + (event.type === "tool_result" ? event.made?.keptTokens ?? 0 : 0),
    0,
  );
  const { calls, promptTokens, outputTokens, tokenUnits = NaN } = end.ledger;
  return { calls, promptTokens, outputTokens, tokenUnits, keptTokens, answer: end.text };
}
