import { fromFileUrl } from "@std/path";
import { API_PATH } from "../../packages/server/client.ts";
import { simulator, toolCall } from "@tare/simulator";
import { type EnteredFunction, type MarkedProgram, startMarked } from "./marked_program.ts";

export interface Walk {
  readonly kind: string;
  readonly functions: readonly EnteredFunction[];
}

export interface WalkSize {
  readonly files: number;
  readonly functions: number;
  /** Planner files, included in `files`. */
  readonly planner: number;
}

const root = new URL("../../", import.meta.url);

const ROUNDS = 3;

/** Time without non-idle activity after which a request is complete, in milliseconds. */
const QUIET_MS = 200;

const MAX_WAITS = 100;

/** Recording time of idle activity, in milliseconds; timers fire about every second. */
const IDLE_MS = 2500;

export function walkSize({ functions }: Walk): WalkSize {
  const files = new Set(functions.map(({ path }) => path));
  const planner = [...files].filter((path) => path.startsWith("planner/"));
  const named = functions.filter(({ name }) => name !== "" && !name.startsWith("<"));
  return { files: files.size, functions: named.length, planner: planner.length };
}

/**
 * Sends each kind of request to the released server, a separate process with a data folder and a simulated provider on
 * loopback, and returns the functions that ran until it was complete. Module loading and idle activity are excluded.
 */
export async function measureWalks(): Promise<Walk[]> {
  const folder = await Deno.makeTempDir();
  try {
    const workspace = `${folder}/workspace`;
    await Deno.mkdir(workspace);
    await Deno.writeTextFile(`${workspace}/notes.txt`, "A line of notes.\n".repeat(50));
    await using provider = startProvider();
    await using server = await startMarked(
      [
        "--frozen",
        fromFileUrl(new URL("packages/app/main.ts", root)),
        ...["--port=0", "--profile=openai", `--data=${folder}/data`, `--workspace=${workspace}`],
      ],
      {
        folder: new URL("packages/", root),
        env: {
          OPENAI_BASE_URL: `${provider.url}/v1`,
          OPENAI_API_KEY: "none",
          ANTHROPIC_BASE_URL: provider.url,
          ANTHROPIC_API_KEY: "none",
          TARE_MODEL: "simulated",
        },
      },
    );
    return await walkAll(server, `${folder}/data/owner.json`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

function startProvider(): { readonly url: string } & AsyncDisposable {
  const provider = simulator({
    model({ messages }) {
      const last = messages.at(-1);
      const lastText = last?.role === "user" ? JSON.stringify(last.content) : "";
      if (lastText.includes("Read")) return { tool_calls: [toolCall("read_file", { path: "notes.txt" })] };
      if (lastText.includes("Write")) {
        return { tool_calls: [toolCall("write_file", { path: "made.txt", content: lastText })] };
      }
      return { content: ANSWER };
    },
    tokenizer: { encode: (text) => text.split(" ").map((word) => word.length) },
  });
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, provider.fetch);
  return { url: `http://127.0.0.1:${server.addr.port}`, [Symbol.asyncDispose]: () => server.shutdown() };
}

const ANSWER = "The notes contain the expected text.";

/** Sends all requests several times; counts functions that ran each time except the first. */
async function walkAll(server: MarkedProgram, ownerFile: string): Promise<Walk[]> {
  const walks = new Map<string, Map<string, EnteredFunction>>();
  await server.entered();
  await new Promise((resolve) => setTimeout(resolve, IDLE_MS));
  const idle = new Set((await server.entered()).map(idOf));
  for (let round = 0; round < ROUNDS; round++) {
    for (const { kind, ask } of requests(server.url, { round, ownerFile })) {
      await ask();
      const entered = await enteredUntilQuiet(server, idle);
      if (kind === undefined) continue;
      const before = round > 1 ? walks.get(kind) : undefined;
      walks.set(kind, new Map([...entered].filter(([id]) => before?.has(id) ?? true)));
    }
  }
  return [...walks].map(([kind, functions]) => ({ kind, functions: [...functions.values()] }));
}

async function enteredUntilQuiet(
  server: MarkedProgram,
  idle: ReadonlySet<string>,
): Promise<Map<string, EnteredFunction>> {
  const all = new Map<string, EnteredFunction>();
  for (let waits = 0; waits < MAX_WAITS; waits++) {
    await new Promise((resolve) => setTimeout(resolve, QUIET_MS));
    const entered = (await server.entered()).filter((one) => !idle.has(idOf(one)));
    if (entered.length === 0) return all;
    for (const one of entered) all.set(idOf(one), one);
  }
  throw new Error(`Cannot measure a request: the server is still active after ${MAX_WAITS * QUIET_MS} ms.`);
}

function idOf({ path, offset }: EnteredFunction): string {
  return `${path} ${offset}`;
}

/** A request; without a kind it isn't measured. */
interface SentRequest {
  readonly kind?: string;
  readonly ask: () => Promise<unknown>;
}

function requests(
  url: string,
  { round, ownerFile }: { readonly round: number; readonly ownerFile: string },
): SentRequest[] {
  const owner = { authorization: `Bearer ${JSON.parse(Deno.readTextFileSync(ownerFile)).key}` };
  const post = async (path: string, body: unknown): Promise<string> => {
    const headers = { "content-type": "application/json", ...owner };
    const response = await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    return await textOf(response);
  };
  const parameters = { type: "object", properties: { path: { type: "string" } }, required: ["path"] };
  const tool = { name: "read_file", description: "Reads a file." };
  const result = `A line of the file in round ${round}.\n`.repeat(500);
  const call = { id: "call_1", name: tool.name, arguments: { path: "notes.txt" } };
  const opening = `Look at the notes in round ${round}.`;

  const chatBody = (more: readonly unknown[]) => ({
    model: "simulated",
    stream: true,
    tools: [{ type: "function", function: { ...tool, parameters } }],
    messages: [
      { role: "system", content: "You look things up." },
      { role: "user", content: opening },
      {
        role: "assistant",
        content: null,
        tool_calls: [{
          id: call.id,
          type: "function",
          function: { name: call.name, arguments: JSON.stringify(call.arguments) },
        }],
      },
      { role: "tool", tool_call_id: call.id, content: result },
      ...more,
    ],
  });
  const messagesBody = (more: readonly unknown[]) => ({
    model: "simulated",
    stream: true,
    max_tokens: 1000,
    system: "You look things up.",
    tools: [{ ...tool, input_schema: parameters }],
    messages: [
      { role: "user", content: opening },
      {
        role: "assistant",
        content: [{ type: "tool_use", id: call.id, name: call.name, input: call.arguments }],
      },
      { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: result }] },
      ...more,
    ],
  });
  const following = [{ role: "assistant", content: ANSWER }, { role: "user", content: "And now?" }];

  let session = "";
  let events = "";
  const turn = (input: string) => post(`${API_PATH}/sessions/${session}/turns`, { input });
  return [
    { ask: () => post("/v1/chat/completions", chatBody([])) },
    { kind: "gateway chat", ask: () => post("/v1/chat/completions", chatBody(following)) },
    { ask: () => post("/v1/messages", messagesBody([])) },
    { kind: "gateway Messages", ask: () => post("/v1/messages", messagesBody(following)) },
    {
      ask: async () => {
        session = JSON.parse(await post(`${API_PATH}/sessions`, {})).id;
        await turn(`Read the notes in round ${round}.`);
      },
    },
    { kind: "agent's second message", ask: () => turn("And now?") },
    { kind: "agent's approval", ask: async () => events = await turn("Write them down.") },
    {
      kind: "agent's approval, answered",
      ask: () => {
        const approval = /"approvalId":"([^"]+)"/.exec(events)?.[1];
        return post(`${API_PATH}/sessions/${session}/approvals/${approval}`, { decision: "allow" });
      },
    },
    { kind: "ledger", ask: async () => textOf(await fetch(`${url}${API_PATH}/ledger`, { headers: owner })) },
  ];
}

async function textOf(response: Response): Promise<string> {
  const text = await response.text();
  if (response.ok) return text;
  throw new Error(`Cannot measure a request: ${response.url} returned ${response.status} ${text}`);
}
