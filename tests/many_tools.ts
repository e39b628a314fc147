/**
 * Plays a session with many tools on a server of its own, or by a client through a gateway, and measures its calls by
 * how the tools are offered.
 *
 * @module
 */
import type {
  AssistantMessage,
  CountTokens,
  FunctionToolCall,
  JsonSchema,
  Message,
  Model,
  ModelEvent,
  ModelRequest,
  Tool,
  ToolDefinition,
  Usage,
} from "@tare/messages";
import { countRequestTokens } from "@tare/messages";
import { listPrice, type Profile } from "@tare/planner";
import { EXAMPLE_MODELS } from "@tare/planner/internal";
import { callCost, PrefixCache } from "@tare/planner/internal/parts";
import type { PolicyOptions } from "@tare/planner/policies";
import { RECALL_TOOL } from "@tare/prune";
import { gateway } from "@tare/gateway";
import { agentHandler } from "@tare/server";
import { memoryStore } from "@tare/session/sqlite";
import { CompletionWriter } from "@tare/wire/internal";
import { seeded } from "./seeded.ts";
import { word } from "./words.ts";

export interface Offering extends PolicyOptions {
  readonly name: string;
  readonly mayDefer: boolean;
  /** Whether a client of chat completions lists all tools to the gateway. Default: a session of the server. */
  readonly isGateway?: true;
}

const NONE = {
  context: false,
  prune: false,
  schemas: false,
  truncate: false,
  references: false,
  normalization: false,
};

/** Compared ways to offer tools. Nothing but tools is removed from the prompt. */
export const OFFERINGS: readonly Offering[] = [
  { name: "in full", mayDefer: false, mechanisms: NONE },
  { name: "deferred", mayDefer: true, mechanisms: { ...NONE, schemas: true } },
  { name: "compact by the planner", mayDefer: false, mechanisms: { ...NONE, schemas: true } },
  {
    name: "compact at once",
    mayDefer: false,
    policy: "classic",
    mechanisms: { ...NONE, schemas: true },
  },
  { name: "in full, gateway", mayDefer: false, isGateway: true, mechanisms: NONE },
  { name: "deferred, gateway", mayDefer: true, isGateway: true, mechanisms: { ...NONE, schemas: true } },
];

export interface Played {
  readonly calls: number;
  readonly toolTokens: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly costUnits: number;
  /** Cost in dollars; absent without a price list. */
  readonly usd?: number;
  readonly deferredTokens: number;
  readonly requests: readonly ModelRequest[];
  readonly results: readonly string[];
}

export interface PlayOptions {
  readonly profile: Profile;
  readonly offering: Offering;
  readonly countTokens: CountTokens;
}

/** Steps of the session without lookups, and of each turn. */
const [STEPS, STEPS_A_TURN] = [30, 6];

const STEP_MS = 20_000;

/** Interval of steps that call a tool, and the number of different tools. */
const [EVERY, DIFFERENT] = [2, 6];

export async function playTools(
  tools: readonly ToolDefinition[],
  options: PlayOptions,
): Promise<Played> {
  const { profile, offering, countTokens } = options;
  // Clients put the server's name first.
  const definitions = !offering.isGateway ? tools : tools.map((tool) => ({
    ...tool,
    function: { ...tool.function, name: `github_${tool.function.name}` },
  }));
  const cache = new PrefixCache(profile);
  const requests: ModelRequest[] = [];
  const usages: Usage[] = [];
  let nowMs = 0;
  const work = plannedWork(definitions, STEPS);
  const answer = (request: ModelRequest) => {
    nowMs += STEP_MS;
    requests.push(request);
    const units = PrefixCache.unitsOf(request, countTokens);
    const cachedTokens = cache.lookup(units, nowMs);
    cache.store(units, nowMs);
    const message = work.reply(request);
    const promptTokens = units.reduce((sum, { tokens }) => sum + tokens, 0);
    const written = promptTokens - cachedTokens;
    const usage = {
      promptTokens,
      cachedTokens,
      ...(profile.write === profile.writes?.hour && { cacheWriteTokens: written, hourWriteTokens: written }),
      outputTokens: countTokens(JSON.stringify(message.tool_calls ?? message.content)),
    };
    usages.push(usage);
    return { message, finishReason: message.tool_calls ? "tool_calls" : "stop", usage } as const;
  };
  const playing = { options, answer, work, now: () => nowMs };
  const { messages, deferredTokens } = offering.isGateway
    ? await playClient(definitions, playing)
    : await playServer(definitions, playing);
  const rates = { profile, price: listPrice(EXAMPLE_MODELS[profile.name] ?? "") };
  const costs = usages.map((usage) => callCost(usage, rates));
  const sum = (numbers: readonly number[]) => numbers.reduce((all, one) => all + one, 0);
  const [first] = requests;
  const others = [READ.definition, RECALL_TOOL].map((tool) => tool.function.name);
  const isOfThem = (tool: ToolDefinition) => !others.includes(tool.function.name);
  const notices = offering.isGateway ? [] : first!.messages.filter(({ role }) => role === "system").slice(1);
  return {
    calls: usages.length,
    toolTokens: countRequestTokens({ messages: notices, tools: first!.tools.filter(isOfThem) }, countTokens),
    promptTokens: sum(usages.map(({ promptTokens }) => promptTokens)),
    cachedTokens: sum(usages.map(({ cachedTokens }) => cachedTokens)),
    costUnits: sum(costs.map(({ costUnits }) => costUnits)),
    ...(rates.price && { usd: sum(costs.map(({ usd = 0 }) => usd)) }),
    deferredTokens,
    requests,
    results: messages.flatMap(({ role, content }) => role === "tool" ? [String(content)] : []),
  };
}

interface Playing {
  readonly options: PlayOptions;
  readonly answer: (request: ModelRequest) => Omit<Extract<ModelEvent, { type: "completed" }>, "type"> & {
    readonly usage: Usage;
  };
  readonly work: ReturnType<typeof plannedWork>;
  readonly now: () => number;
}

interface PlayedMessages {
  readonly messages: readonly Message[];
  readonly deferredTokens: number;
}

async function playServer(
  definitions: readonly ToolDefinition[],
  { options: { profile, offering, countTokens }, answer, work, now }: Playing,
): Promise<PlayedMessages> {
  const model: Model = async function* (request) {
    yield { type: "completed", ...answer(request) };
  };
  const { name: _, mayDefer, isGateway: __, ...prompt } = offering;
  const handler = agentHandler({
    models: {
      model: () => model,
      defaultModel: EXAMPLE_MODELS[profile.name] ?? "none",
      countTokens: () => Promise.resolve(countTokens),
      profile,
      windowTokens: 200_000,
    },
    prompt,
    tools: [READ, ...definitions.map((definition) => toolOf(definition, mayDefer))],
    store: memoryStore({ now }),
    limits: { turn: { maxSteps: 1_000 } },
  });
  const send = async (path: string, body: unknown) => {
    const response = await handler.fetch(
      new Request(`http://localhost/tare/v1/sessions${path}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      }),
    );
    if (!response.ok) throw new Error(`Cannot play: ${await response.text()}`);
    return await response.text();
  };
  const { id } = JSON.parse(await send("", {}));
  while (work.left > 0) await send(`/${id}/turns`, { input: `Go on with ${work.left} things.` });
  const response = await handler.fetch(new Request(`http://localhost/tare/v1/sessions/${id}`));
  const { messages, ledger } = await response.json();
  return { messages, deferredTokens: ledger.saved.deferred ?? 0 };
}

async function playClient(
  definitions: readonly ToolDefinition[],
  { options: { profile, offering, countTokens }, answer, work, now }: Playing,
): Promise<PlayedMessages> {
  const { name: _, mayDefer, isGateway: __, ...planning } = offering;
  const model = EXAMPLE_MODELS[profile.name] ?? "none";
  const chat = {
    baseURL: "http://upstream.test/v1",
    profile,
    windowTokens: 200_000,
    defersTools: () => mayDefer,
  };
  const { fetch, sessions } = gateway({
    upstreams: { chat },
    countTokens: () => Promise.resolve(countTokens),
    fetch: async (...args) => {
      const { messages, tools } = await new Request(...args).json();
      const { signal } = new AbortController();
      const { message, finishReason, usage } = answer({ messages, tools, signal });
      const writer = new CompletionWriter({ id: "c", created: 0, model });
      const { content = null, tool_calls: calls = [] } = message;
      const functions = calls as readonly FunctionToolCall[];
      const said = { role: "assistant", content: content as string | null } as const;
      return Response.json(writer.body({
        message: functions.length > 0 ? { ...said, tool_calls: functions } : said,
        finishReason,
        usage,
      }));
    },
    planning,
    now,
  });
  const tools = [READ.definition, ...definitions];
  const messages: Message[] = [{ role: "system", content: "You work with tools." }];
  while (work.left > 0) {
    messages.push({ role: "user", content: `Go on with ${work.left} things.` });
    for (
      let calls: readonly FunctionToolCall[] = [];
      messages.at(-1)!.role !== "assistant" || calls.length > 0;
    ) {
      const response = await fetch(
        new Request("http://localhost/v1/chat/completions", {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ model, messages, tools }),
        }),
      )!;
      const { choices: [{ message }] } = await response.json();
      messages.push(message);
      calls = message.tool_calls ?? [];
      for (const { id, function: { name, arguments: text } } of calls) {
        const content = name === READ.definition.function.name
          ? words(400, String(JSON.parse(text).name))
          : words(250, name);
        messages.push({ role: "tool", tool_call_id: id, content });
      }
    }
  }
  return { messages, deferredTokens: (await sessions.ledger({})).planned.savedTokens };
}

const READ: Tool = {
  definition: {
    type: "function",
    function: {
      name: "read_text",
      description: "Reads a text.",
      parameters: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
    },
  },
  stance: "rederivable",
  run: ({ name }) => words(400, String(name)),
};

function toolOf(definition: ToolDefinition, mayDefer: boolean): Tool {
  return {
    definition,
    mayDefer,
    stance: "rederivable",
    run: () => words(250, definition.function.name),
  };
}

function words(count: number, about: string): string {
  const random = seeded(about.length);
  return `${about}: ${Array.from({ length: count }, () => word(random)).join(" ")}`;
}

function plannedWork(definitions: readonly ToolDefinition[], steps: number) {
  const calls = Array.from({ length: steps }, (_, step) => {
    const chosen = definitions[Math.floor((step / EVERY % DIFFERENT) * definitions.length / DIFFERENT)]!;
    return step % STEPS_A_TURN === STEPS_A_TURN - 1
      ? undefined
      : step % EVERY === 0
      ? { tool: chosen.function.name, args: exampleOf(chosen.function.parameters ?? {}) }
      : { tool: READ.definition.function.name, args: { name: `text ${step}` } };
  });
  let step = 0;
  let id = 0;
  const call = (name: string, args: unknown): AssistantMessage => ({
    role: "assistant",
    content: null,
    tool_calls: [{
      id: `call_${++id}`,
      type: "function",
      function: { name, arguments: JSON.stringify(args) },
    }],
  });
  return {
    get left() {
      return steps - step;
    },
    reply({ messages, tools }: ModelRequest): AssistantMessage {
      const next = calls[step];
      if (!next) {
        step++;
        return { role: "assistant", content: words(60, `answer ${step}`) };
      }
      const { tool, args } = next;
      const isListed = tools.some(({ function: { name } }) => name === tool);
      const wasFound = messages.some(({ role, content }) =>
        role === "tool" && String(content).includes(`{"name":${JSON.stringify(tool)},`)
      );
      if (!isListed && !wasFound) return call("find_tools", { query: tool });
      step++;
      return isListed ? call(tool, args) : call("call_tool", { name: tool, arguments: args });
    },
  };
}

/** Returns minimal arguments that are valid by a schema. */
export function exampleOf(schema: JsonSchema): unknown {
  const { type, enum: values, properties = {}, required = [], items = {}, anyOf, oneOf, minItems = 0 } =
    schema as {
      readonly type?: string | readonly string[];
      readonly enum?: readonly unknown[];
      readonly properties?: Readonly<Record<string, JsonSchema>>;
      readonly required?: readonly string[];
      readonly items?: JsonSchema;
      readonly anyOf?: readonly JsonSchema[];
      readonly oneOf?: readonly JsonSchema[];
      readonly minItems?: number;
    };
  if (values) return values[0];
  const [choice] = anyOf ?? oneOf ?? [];
  if (choice && type === undefined) return exampleOf(choice);
  switch (typeof type === "string" ? type : type?.[0]) {
    case "string":
      return "something";
    case "integer":
    case "number":
      return 1;
    case "boolean":
      return true;
    case "array":
      return Array.from({ length: minItems }, () => exampleOf(items));
    case "null":
      return null;
    default:
      return Object.fromEntries(required.map((name) => [name, exampleOf(properties[name] ?? {})]));
  }
}
