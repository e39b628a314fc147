import { sourceText } from "../gateway/long_session.ts";
import type { AgentTools, WantedCall } from "./model.ts";
import { CHAT } from "./protocols/chat.ts";
import { MESSAGES } from "./protocols/messages.ts";
import type { Fields, SpokenProtocol } from "./protocols/protocol.ts";
import { RESPONSES } from "./protocols/responses.ts";

type Item =
  | { readonly type: "user"; readonly text: string }
  | { readonly type: "assistant"; readonly text: string }
  | { readonly type: "call"; readonly id: string; readonly name: string; readonly args: string }
  | { readonly type: "result"; readonly id: string; readonly text: string };

/** An in-process agent: what it sends besides the conversation, and when it compacts. */
export interface SimulatedAgent {
  readonly name: string;
  readonly protocol: SpokenProtocol;
  readonly userAgent: string;
  /**
   * Size of the next prompt from which it compacts, for a window; `refused` for only after a refusal.
   */
  readonly compactsFrom: ((windowTokens: number) => number) | "refused";
  /** Whether its user messages stay after a compaction. Default: false. */
  readonly keepsUserTexts?: boolean;
  /** Tokens of other content that it adds after a compaction, as for `sourceText()`. Default: 0. */
  readonly retainedTokens?: number;
}

export const SHELL_TOOLS: AgentTools = {
  shell: (command) => ({ name: "shell", args: { command } }),
};

const INSTRUCTIONS = "You are a coding agent. Follow the plan, and use the tools. ".repeat(60);

const SUMMARIZE =
  "Respond with TEXT ONLY. Do NOT call any tools. Your task is to create a detailed summary of the " +
  "conversation so far. It must contain the user's requests, each fact that a later step may need, all decisions " +
  "with their reasons, and what remains to be done. Another agent continues the work and sees only your summary.";

/** Returns definitions of this many tools, the shell first. */
function definitions(count: number): readonly Fields[] {
  return Array.from({ length: count }, (_, at) => ({
    name: at === 0 ? "shell" : `tool_${at}`,
    description: `Runs part ${at} of the environment, and returns its output as text. `.repeat(12),
    parameters: { type: "object", properties: { command: { type: "string" } } },
  }));
}

/** The usual model and another one, by protocol. */
const MODELS: Readonly<Record<string, readonly [string, string]>> = {
  [CHAT.path]: ["gpt-5.4", "gpt-5.4-mini"],
  [RESPONSES.path]: ["gpt-5.4", "gpt-5.4-mini"],
  [MESSAGES.path]: ["claude-opus-5-5", "claude-sonnet-5"],
};

export interface AgentEnvironment {
  readonly send: (request: Request) => Promise<Response>;
  /** Files by path, which commands read and change. */
  readonly files: Map<string, string>;
  readonly windowTokens: number;
  readonly countTokens: (text: string) => number;
}

/** Conversation of a simulated agent. */
export class SimulatedConversation {
  tools = 26;
  model: string;
  readonly #agent: SimulatedAgent;
  readonly #environment: AgentEnvironment;
  #items: Item[] = [];
  #promptTokens = 0;
  #sentItems = 0;
  compactions = 0;

  constructor(agent: SimulatedAgent, environment: AgentEnvironment) {
    this.#agent = agent;
    this.#environment = environment;
    this.model = MODELS[agent.protocol.path]![0];
  }

  /** Uses another model of the same provider, or its usual one again. */
  switchModel(usual: boolean): void {
    const [own, other] = MODELS[this.#agent.protocol.path]!;
    this.model = usual ? own : other;
  }

  /**
   * Runs a turn to its end, or until `stop` returns whether to interrupt it before its next call.
   */
  async turn(prompt: string, stop: (call: number) => boolean = () => false): Promise<void> {
    this.#items.push({ type: "user", text: prompt });
    for (let call = 0; !stop(call); call++) {
      const { compactsFrom } = this.#agent;
      const { windowTokens } = this.#environment;
      if (compactsFrom !== "refused" && this.#nextTokens() > compactsFrom(windowTokens)) await this.compact();
      let reply = await this.#call(this.#items);
      if (!reply) {
        await this.compact();
        reply = await this.#call(this.#items);
        if (!reply) throw new Error("The provider refused a compacted prompt.");
      }
      this.#items.push(...reply);
      const calls = reply.filter((item) => item.type === "call");
      if (calls.length === 0) return;
      for (const { id, args } of calls) {
        this.#items.push({ type: "result", id, text: this.#run(JSON.parse(args).command) });
      }
    }
  }

  async compact(): Promise<void> {
    this.compactions++;
    let items = this.#items;
    let summary = await this.#call([...items, { type: "user", text: SUMMARIZE }]);
    // A conversation that the provider refuses is summarized without its newest step.
    while (!summary) {
      items = items.slice(
        0,
        items.findLastIndex((item, at) => item.type === "call" && items[at - 1]?.type !== "call"),
      );
      summary = await this.#call([...items, { type: "user", text: SUMMARIZE }]);
    }
    const text = summary.map((item) => item.type === "assistant" ? item.text : "").join("");
    const { retainedTokens = 0 } = this.#agent;
    const users = this.#items.filter((item) => item.type === "user");
    this.#items = [
      ...(this.#agent.keepsUserTexts ? users : []),
      { type: "user", text: `The conversation so far, in short: ${text} Continue.` },
      ...(retainedTokens > 0
        ? [{ type: "user" as const, text: sourceText("retained", retainedTokens) }]
        : []),
      ...this.#items.slice(items.length),
    ];
    this.#promptTokens = 0;
    this.#sentItems = this.#items.length;
  }

  #nextTokens(): number {
    const { countTokens } = this.#environment;
    return this.#items.slice(this.#sentItems).reduce(
      (sum, item) => sum + countTokens(item.type === "call" ? item.args : item.text),
      this.#promptTokens,
    );
  }

  async #call(items: readonly Item[]): Promise<readonly Item[] | undefined> {
    const { protocol, userAgent } = this.#agent;
    const response = await this.#environment.send(
      new Request(`http://provider.example${protocol.path}`, {
        method: "POST",
        headers: { "content-type": "application/json", "user-agent": userAgent, "x-api-key": "key" },
        body: JSON.stringify({ ...this.#body(items), stream: true }),
      }),
    );
    const text = await response.text();
    if (response.status === 400 && /too long/.test(text)) return undefined;
    if (response.status !== 200) throw new Error(`${response.status}: ${text}`);
    const events = [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data = ""]) => JSON.parse(data));
    this.#promptTokens = Math.max(...events.map(promptOf));
    this.#sentItems = items.length;
    return READERS[protocol.path]!(events);
  }

  #body(items: readonly Item[]): Fields {
    const { protocol } = this.#agent;
    const tools = definitions(this.tools);
    if (protocol === CHAT) {
      return {
        model: this.model,
        messages: [{ role: "system", content: INSTRUCTIONS }, ...chatMessages(items)],
        tools: tools.map((tool) => ({ type: "function", function: tool })),
        stream_options: { include_usage: true },
      };
    }
    if (protocol === MESSAGES) {
      const messages = anthropicMessages(items);
      const last = messages.at(-1)!;
      const marked = last.content.with(-1, { ...last.content.at(-1), cache_control: { type: "ephemeral" } });
      return {
        model: this.model,
        max_tokens: 32_000,
        system: [{ type: "text", text: INSTRUCTIONS, cache_control: { type: "ephemeral" } }],
        tools: tools.map(({ parameters, ...tool }) => ({ ...tool, input_schema: parameters })),
        messages: messages.with(-1, { ...last, content: marked }),
      };
    }
    return {
      model: this.model,
      instructions: INSTRUCTIONS,
      tools: tools.map((tool) => ({ type: "function", strict: false, ...tool })),
      input: items.map((item): Fields => {
        if (item.type === "call") {
          return { type: "function_call", call_id: item.id, name: item.name, arguments: item.args };
        }
        if (item.type === "result") {
          return { type: "function_call_output", call_id: item.id, output: item.text };
        }
        const type = item.type === "user" ? "input_text" : "output_text";
        return { type: "message", role: item.type, content: [{ type, text: item.text }] };
      }),
      store: false,
    };
  }

  #run(command: string): string {
    const { files } = this.#environment;
    const [, text, report] = /^printf '%s\\n' '([^]*)' > (\S+)/.exec(command) ?? [];
    if (report !== undefined) files.set(report, `${text}\n`);
    const outputs = [...command.matchAll(/\bcat (\S+)/g)].map(([, path = ""]) =>
      files.get(path) ?? `cat: ${path}: No such file or directory`
    );
    for (const [, path = ""] of command.matchAll(/\brm (\S+)/g)) files.delete(path);
    return outputs.join("\n");
  }
}

function chatMessages(items: readonly Item[]): readonly Fields[] {
  const messages: Fields[] = [];
  for (const item of items) {
    if (item.type === "user") messages.push({ role: "user", content: item.text });
    else if (item.type === "result") {
      messages.push({ role: "tool", tool_call_id: item.id, content: item.text });
    } else if (item.type === "assistant") messages.push({ role: "assistant", content: item.text });
    else {
      const call = { id: item.id, type: "function", function: { name: item.name, arguments: item.args } };
      const before = messages.at(-1)!;
      if (before.role === "assistant") {
        const calls = before.tool_calls as readonly Fields[] | undefined ?? [];
        messages[messages.length - 1] = { ...before, tool_calls: [...calls, call] };
      } else messages.push({ role: "assistant", content: null, tool_calls: [call] });
    }
  }
  return messages;
}

function anthropicMessages(
  items: readonly Item[],
): readonly { readonly role: string; readonly content: readonly Fields[] }[] {
  const messages: { role: string; content: Fields[] }[] = [];
  for (const item of items) {
    const role = item.type === "user" || item.type === "result" ? "user" : "assistant";
    const block: Fields = item.type === "call"
      ? { type: "tool_use", id: item.id, name: item.name, input: JSON.parse(item.args) }
      : item.type === "result"
      ? { type: "tool_result", tool_use_id: item.id, content: item.text || "(none)" }
      : { type: "text", text: item.text };
    if (messages.at(-1)?.role === role) messages.at(-1)!.content.push(block);
    else messages.push({ role, content: [block] });
  }
  return messages;
}

// deno-lint-ignore no-explicit-any
type Event = any;

const READERS: Readonly<Record<string, (events: readonly Event[]) => readonly Item[]>> = {
  "/v1/chat/completions"(events) {
    let text = "";
    const calls: { id: string; name: string; args: string }[] = [];
    for (const { choices: [choice] = [] } of events) {
      text += choice?.delta?.content ?? "";
      for (const { index, id, function: named } of choice?.delta?.tool_calls ?? []) {
        calls[index] ??= { id, name: named.name, args: "" };
        calls[index].args += named.arguments;
      }
    }
    return itemsOf(text, calls);
  },
  "/v1/responses"(events) {
    const { response } = events.find(({ type }) => type === "response.completed");
    return response.output.flatMap((item: Event): readonly Item[] =>
      item.type === "message"
        ? [{ type: "assistant", text: item.content[0].text }]
        : item.type === "function_call"
        ? [{ type: "call", id: item.call_id, name: item.name, args: item.arguments }]
        : []
    );
  },
  "/v1/messages"(events) {
    let text = "";
    const calls: { id: string; name: string; args: string }[] = [];
    for (const { type, content_block: block, delta } of events) {
      if (type === "content_block_start" && block.type === "tool_use") {
        calls.push({ id: block.id, name: block.name, args: "" });
      }
      if (type !== "content_block_delta") continue;
      if (delta.type === "text_delta") text += delta.text;
      if (delta.type === "input_json_delta") calls.at(-1)!.args += delta.partial_json;
    }
    return itemsOf(text, calls);
  },
};

function itemsOf(
  text: string,
  calls: readonly (Omit<WantedCall, "args"> & { readonly id: string; readonly args: string })[],
): readonly Item[] {
  return [
    ...(text === "" ? [] : [{ type: "assistant" as const, text }]),
    ...calls.map((call) => ({ type: "call" as const, ...call })),
  ];
}

function promptOf(event: Event): number {
  const usage = event.usage ?? event.message?.usage ?? event.response?.usage ?? {};
  return usage.prompt_tokens ??
    (usage.input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0) +
      (usage.cache_read_input_tokens ?? 0);
}
