/**
 * A provider of chat completions on loopback whose model does what it is told. Holds no tests.
 *
 * @module
 */

import { refusedBy } from "./refused.ts";

/** What the model was asked. */
export interface Asked {
  /** The newest message's text. */
  readonly asked: string;
  /** All messages, as they came. */
  readonly messages: readonly { readonly role: string; readonly content: unknown }[];
}

/** A provider that listens. */
export interface ScriptedProvider {
  /** What a server's environment says of it; nothing else of `TARE_` is set. */
  readonly env: Readonly<Record<string, string>>;
  /** All that it was asked. */
  readonly asked: readonly Asked[];
  readonly close: () => Promise<void>;
}

/** Starts one that gives these answers. */
export function scriptedProvider(answer: (asked: Asked) => string): ScriptedProvider {
  const all: Asked[] = [];
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    if (request.method !== "POST") return Response.json({ object: "list", data: [] });
    const given = await request.json();
    const refused = refusedBy(new URL(request.url).pathname, given);
    if (refused) return refused;
    const { messages } = given;
    const { content } = messages.at(-1);
    const text = typeof content === "string"
      ? content
      : content.map((part: { readonly text?: string }) => part.text ?? "").join("");
    const asked = { asked: text, messages };
    all.push(asked);
    const base = { id: "1", object: "chat.completion.chunk", created: 0, model: "scripted" };
    const chunks = [
      { ...base, choices: [{ index: 0, delta: { role: "assistant", content: answer(asked) } }] },
      { ...base, choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
      { ...base, choices: [], usage: { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 } },
    ];
    const body = [...chunks.map((chunk) => JSON.stringify(chunk)), "[DONE]"];
    return new Response(body.map((data) => `data: ${data}\n\n`).join(""), {
      headers: { "content-type": "text/event-stream" },
    });
  });
  return {
    env: {
      ...Object.fromEntries(
        "TARE_HOST TARE_PORT TARE_TOKEN TARE_DATA TARE_WORKSPACE INIT_CWD ANTHROPIC_API_KEY".split(" ")
          .map((name) => [name, ""]),
      ),
      OPENAI_BASE_URL: `http://127.0.0.1:${server.addr.port}/v1`,
      TARE_MODEL: "scripted",
    },
    asked: all,
    close: () => server.shutdown(),
  };
}
