import Anthropic from "@anthropic-ai/sdk";
import type { Client } from "../../gateway/compare.ts";
import { parametersOf, QUESTION, SYSTEM, TOOLS } from "../../gateway/long_session.ts";
import type { Player } from "./openai_clients.ts";

type Mark = { readonly cache_control: Anthropic.CacheControlEphemeral };

const SHORT: Mark = { cache_control: { type: "ephemeral" } };
const HOUR: Mark = { cache_control: { type: "ephemeral", ttl: "1h" } };

export type Breakpoints = "none" | "system and end" | "for an hour" | "whole";

function connect({ baseURL, fetch }: Client): Anthropic {
  return new Anthropic({ baseURL: baseURL.replace(/\/v1$/, ""), fetch, apiKey: "key", maxRetries: 0 });
}

function bodyOf(
  messages: readonly Anthropic.MessageParam[],
  breakpoints: Breakpoints,
): Anthropic.MessageCreateParams {
  const mark =
    { "system and end": SHORT, "for an hour": HOUR, "whole": undefined, "none": undefined }[breakpoints];
  return {
    model: "claude-sonnet-5",
    max_tokens: 1_000,
    ...(breakpoints === "whole" && SHORT),
    system: mark ? [{ type: "text", text: SYSTEM, ...mark }] : SYSTEM,
    messages: messages.map((message, at) =>
      mark && at === messages.length - 1 ? marked(message, mark) : message
    ),
    tools: TOOLS.map((tool) => ({
      name: tool.name,
      description: tool.description,
      input_schema: parametersOf(tool),
    })),
  };
}

/** Sets the breakpoint on the last block of the last message; it moves with each request. */
function marked({ role, content }: Anthropic.MessageParam, mark: Mark): Anthropic.MessageParam {
  const blocks = typeof content === "string" ? [{ type: "text" as const, text: content }] : content;
  const visible = blocks.map((block, at) => at === blocks.length - 1 ? { ...block, ...mark } : block);
  return { role, content: visible } as Anthropic.MessageParam;
}

async function loop(
  ask: (body: Anthropic.MessageCreateParams) => Promise<Anthropic.Message>,
  run: Client["run"],
  breakpoints: Breakpoints,
): Promise<string> {
  const messages: Anthropic.MessageParam[] = [{ role: "user", content: QUESTION }];
  for (;;) {
    const { content } = await ask(bodyOf(messages, breakpoints));
    messages.push({ role: "assistant", content });
    const results = content.flatMap((block) =>
      block.type === "tool_use"
        ? [{ type: "tool_result" as const, tool_use_id: block.id, content: run(block.name, block.input) }]
        : []
    );
    if (results.length === 0) {
      return content.map((block) => block.type === "text" ? block.text : "").join("");
    }
    messages.push({ role: "user", content: results });
  }
}

export function playMessages(breakpoints: Breakpoints): Player {
  return async (client) => {
    const anthropic = connect(client);
    const ask = (body: Anthropic.MessageCreateParams) =>
      anthropic.messages.create({ ...body, stream: false });
    return await loop(ask, client.run, breakpoints);
  };
}

export function streamMessages(breakpoints: Breakpoints): Player {
  return async (client) => {
    const anthropic = connect(client);
    const ask = (body: Anthropic.MessageCreateParams) => anthropic.messages.stream(body).finalMessage();
    return await loop(ask, client.run, breakpoints);
  };
}
