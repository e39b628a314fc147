import { recogniseProfile } from "./providers.ts";
import { assertEquals, assertThrows } from "@std/assert";
import { chooseProfile, profileForTtl, profileNamed, profileOfModelList, PROFILES } from "@tare/planner";

Deno.test("profileNamed() hands over each profile by its own name", () => {
  assertEquals(Object.keys(PROFILES).map((name) => profileNamed(name).name), Object.keys(PROFILES));
});

Deno.test("profileNamed() lists the profiles that exist when asked for another", () => {
  for (const name of ["antropic", "toString", ""]) {
    assertThrows(
      () => profileNamed(name),
      RangeError,
      `Cannot use profile ${
        JSON.stringify(name)
      }: it is none of anthropic-5m, anthropic-1h, openai, openai-5.6, deepseek, gemini, local, none`,
    );
  }
});

Deno.test("PROFILES has priors that fall with idle time", () => {
  for (const { warmth } of Object.values(PROFILES)) {
    assertEquals(warmth.toSorted((a, b) => a.idleMs - b.idleMs || b.probability - a.probability), warmth);
    assertEquals(
      warmth.map(({ probability }) => probability).toSorted((a, b) => b - a),
      warmth.map((w) => w.probability),
    );
  }
});

Deno.test("chooseProfile() goes by name, then by what the server says, then model, then address, else takes none", () => {
  const cases: [Parameters<typeof chooseProfile>[0], string][] = [
    [{ name: "deepseek", model: "claude-opus-4", baseUrl: "https://api.openai.com/v1" }, "deepseek"],
    [{ model: "claude-opus-4", baseUrl: "https://openrouter.ai/api/v1" }, "anthropic-5m"],
    [{ model: "anthropic/claude-sonnet-4" }, "anthropic-5m"],
    [{ model: "gpt-4o" }, "openai"],
    [{ model: "openai/gpt-5.5" }, "openai"],
    [{ model: "gpt-5.6-mini" }, "openai-5.6"],
    [{ model: "gpt-6" }, "openai-5.6"],
    [{ model: "gpt-3.5-turbo" }, "none"],
    [{ model: "o3" }, "openai"],
    [{ model: "deepseek-chat" }, "deepseek"],
    [{ model: "gemini-3-pro" }, "gemini"],
    [{ model: "qwen.gguf" }, "local"],
    [{ model: "qwen3", baseUrl: "http://localhost:11434/v1" }, "local"],
    [{ model: "gpt-oss:20b", baseUrl: "http://localhost:11434/v1" }, "local"],
    [{ model: "test", baseUrl: "http://127.0.0.1:8080/v1" }, "none"],
    [{ baseUrl: "https://api.openai.com/v1" }, "openai"],
    [{ baseUrl: "https://api.anthropic.com/v1/" }, "anthropic-5m"],
    [{ baseUrl: "https://api.deepseek.com" }, "deepseek"],
    [{ baseUrl: "https://generativelanguage.googleapis.com/v1beta/openai/" }, "gemini"],
    [{ baseUrl: "https://notopenai.com" }, "none"],
    [{ server: "local", model: "deepseek-r1", baseUrl: "http://localhost:8000/v1" }, "local"],
    [{ name: "none", server: "local" }, "none"],
    [{ server: undefined, model: "gpt-4o" }, "openai"],
    [{ baseUrl: "no url" }, "none"],
    [{}, "none"],
  ];
  assertEquals(cases.map(([hints]) => chooseProfile(hints).name), cases.map(([, name]) => name));
});

Deno.test("recogniseProfile() goes by reported writes, then by blocks, and by nothing where nothing was cached", () => {
  const usage = (cachedTokens: number) => ({ promptTokens: 5_000, cachedTokens, outputTokens: 1 });
  assertEquals(recogniseProfile(usage(0)), undefined);
  assertEquals(recogniseProfile({ ...usage(1_280), cacheWriteTokens: 0 }), "anthropic-5m");
  assertEquals([1_280, 1_344, 1_360, 1_361].map((tokens) => recogniseProfile(usage(tokens))), [
    "openai",
    "deepseek",
    "local",
    "gemini",
  ]);
});

Deno.test("recogniseProfile() goes by how long what was written stays, at its end, where that is told", () => {
  const wrote = (cacheWriteTokens: number, hourWriteTokens: number) => ({
    promptTokens: 2_000,
    cachedTokens: 0,
    outputTokens: 1,
    cacheWriteTokens,
    hourWriteTokens,
  });
  const known = [undefined, "anthropic-5m", "anthropic-1h", "openai"] as const;
  const recognised = known.map((name) =>
    [wrote(500, 0), wrote(500, 300), wrote(500, 500), wrote(0, 0)].map((usage) =>
      recogniseProfile(usage, name && profileNamed(name))
    )
  );
  const told = ["anthropic-5m", "anthropic-5m", "anthropic-1h", undefined];
  assertEquals(recognised, [told, told, told, [undefined, undefined, undefined, undefined]]);
});

Deno.test("profileForTtl() takes the profile of the same provider for the time that is asked for", () => {
  const named = (name: string, ttlMs: number) => profileForTtl(profileNamed(name), ttlMs).name;
  assertEquals([0, 300_000, 3_600_000, 5].map((ttlMs) => named("anthropic-5m", ttlMs)), [
    "none",
    "anthropic-5m",
    "anthropic-1h",
    "anthropic-5m",
  ]);
  assertEquals(named("openai", 0), "openai");
});

Deno.test("profileOfModelList() knows lists of servers on one's own machine, and no others", () => {
  const list = (...owners: readonly unknown[]) => ({
    object: "list",
    data: owners.map((owned_by) => ({ id: "m", owned_by })),
  });
  const local = ["llamacpp", "vllm", "sglang", "library", "organization_owner"];
  assertEquals(local.map((owner) => profileOfModelList(list(owner, owner))), local.map(() => "local"));
  const others = [
    list(),
    list("openai"),
    list("vllm", "openai"),
    list(undefined),
    { data: [null] },
    { data: "vllm" },
    {},
    null,
    3,
  ];
  assertEquals(others.map(profileOfModelList), others.map(() => undefined));
});
