import { createAnthropic } from "@ai-sdk/anthropic";
import { profileNamed } from "@tare/planner";
import { generateText, streamText } from "ai";
import { compare } from "../../gateway/compare.ts";
import { settings } from "./ai_sdk_settings.ts";
import { playMessages, streamMessages } from "./anthropic_clients.ts";

/** After a rewrite only what precedes a breakpoint is read from the cache; the benchmark reads up to the change. */
const SHORT = { profile: profileNamed("anthropic-5m"), tolerance: 0.01 };
const NONE = { profile: profileNamed("none") };
const MODEL = "claude-sonnet-5";

Deno.test("anthropic: messages.create() costs less through the gateway and answers the same", async () => {
  await compare(playMessages("system and end"), SHORT);
});

Deno.test("anthropic: messages.stream() costs less through the gateway and answers the same", async () => {
  await compare(streamMessages("system and end"), SHORT);
});

Deno.test("anthropic: a cache of an hour is billed as such", async () => {
  // Once no breakpoint precedes a change, so more is read again than the benchmark considers necessary.
  await compare(streamMessages("for an hour"), { profile: profileNamed("anthropic-1h"), tolerance: 0.1 });
});

Deno.test("anthropic: automatic caching costs less through the gateway and answers the same", async () => {
  await compare(playMessages("whole"), SHORT);
});

Deno.test("anthropic: uncached prompts cost less through the gateway and answer the same", async () => {
  await compare(playMessages("none"), NONE);
});

Deno.test("AI SDK: generateText() with the Anthropic provider costs less and answers the same", async () => {
  await compare(async ({ run, ...options }) => {
    const provider = createAnthropic({ apiKey: "key", ...options });
    return (await generateText(settings(provider(MODEL), run))).text;
  }, NONE);
});

Deno.test("AI SDK: streamText() with the Anthropic provider and automatic caching costs less and answers the same", async () => {
  await compare(async ({ run, ...options }) => {
    const provider = createAnthropic({ apiKey: "key", ...options });
    return await streamText({
      ...settings(provider(MODEL), run),
      providerOptions: { anthropic: { cacheControl: { type: "ephemeral" } } },
    }).text;
  }, SHORT);
});
