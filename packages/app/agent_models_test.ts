import { assertEquals } from "@std/assert";
import { listPrice, profileNamed } from "@tare/planner";
import { configuredModels, isRehearsed, priceOf, type ProviderSettings } from "./agent_models.ts";
import { readSettings } from "./settings/settings.ts";

const OPENAI = "https://api.openai.com/v1";
const ANTHROPIC = "https://api.anthropic.com";

const settings = (environment: Record<string, string>): ProviderSettings => readSettings([], environment);

/** Where the requests for these models go, and by which cache rules they are planned. */
function routes(environment: Record<string, string>, models: readonly string[]): string[][] {
  const { address, profile } = configuredModels(settings({ TARE_MODEL: "m", ...environment }));
  return models.map((model) => [model, address(model), profile(model).name]);
}

Deno.test("configuredModels() sends every model to the only provider there is", () => {
  assertEquals(routes({ ANTHROPIC_API_KEY: "k" }, ["", "claude-sonnet-5", "other"]), [
    ["", ANTHROPIC, "anthropic-5m"],
    ["claude-sonnet-5", ANTHROPIC, "anthropic-5m"],
    ["other", ANTHROPIC, "anthropic-5m"],
  ]);
  assertEquals(routes({ ANTHROPIC_BASE_URL: "http://127.0.0.1:1" }, ["other"]), [
    ["other", "http://127.0.0.1:1", "anthropic-5m"],
  ]);
  assertEquals(routes({ OPENAI_API_KEY: "k" }, ["", "gpt-5.5", "claude-sonnet-5"]), [
    ["", OPENAI, "openai"],
    ["gpt-5.5", OPENAI, "openai"],
    ["claude-sonnet-5", OPENAI, "anthropic-5m"],
  ]);
});

Deno.test("configuredModels() sends each model to its own provider where there are two", () => {
  const both = { OPENAI_API_KEY: "a", ANTHROPIC_API_KEY: "b" };
  assertEquals(routes(both, ["Claude-opus-5", "gpt-5.5", "anthropic/claude-opus-5", "deepseek-chat"]), [
    ["Claude-opus-5", ANTHROPIC, "anthropic-5m"],
    ["gpt-5.5", OPENAI, "openai"],
    // A name with its vendor in front is one of a provider that passes models on.
    ["anthropic/claude-opus-5", OPENAI, "anthropic-5m"],
    ["deepseek-chat", OPENAI, "deepseek"],
  ]);
  assertEquals(routes({ ...both, TARE_PROFILE: "anthropic-1h" }, ["claude-opus-5"]), [
    ["claude-opus-5", ANTHROPIC, "anthropic-1h"],
  ]);
});

Deno.test("priceOf() takes one's own price, then the list's, and none on one's own machine", () => {
  const price = (environment: Record<string, string>, profile: string, model: string) =>
    priceOf(settings(environment), () => profileNamed(profile))(model);
  assertEquals(price({}, "openai", "gpt-5"), listPrice("gpt-5"));
  assertEquals([price({}, "none", "other"), price({}, "local", "gpt-5")], [undefined, undefined]);
  const own = { input: 1, output: 2 };
  assertEquals(price({ TARE_PRICE: "input=1,output=2" }, "local", "gpt-5"), own);
  const file = { profileFile: { path: "p", profile: { ...profileNamed("openai"), price: own } } };
  assertEquals(priceOf(file, () => profileNamed("openai"))("gpt-5"), own);
});

Deno.test("isRehearsed() says whether nothing is configured", () => {
  assertEquals(isRehearsed(settings({})), true);
  // The gateway's address alone makes no agent.
  assertEquals(isRehearsed(settings({ ANTHROPIC_BASE_URL: "http://127.0.0.1:1" })), true);
  assertEquals(isRehearsed(settings({ ANTHROPIC_API_KEY: "k" })), false);
  assertEquals(isRehearsed(settings({ OPENAI_BASE_URL: "http://127.0.0.1:1/v1" })), false);
  assertEquals(isRehearsed(settings({ ANTHROPIC_BASE_URL: "http://127.0.0.1:1", TARE_MODEL: "m" })), false);
});
