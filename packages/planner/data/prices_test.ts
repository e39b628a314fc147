import { assert, assertEquals } from "@std/assert";
import { chooseProfile, EXAMPLE_MODELS, listPrice, PRICES_DATE, profileNamed } from "@tare/planner";
import { PRICES } from "./prices.ts";

Deno.test("listPrice() knows a model by its name, with a vendor in front and a date behind", () => {
  const names = [
    "claude-sonnet-4-5",
    "claude-sonnet-4-5-20250929",
    "anthropic/claude-sonnet-4-5-latest",
    "Claude-Sonnet-4-5@20250929",
    "claude-sonnet-4-5[1m]",
  ];
  for (const name of names) assertEquals(listPrice(name), PRICES["claude-sonnet-4-5"], name);
  assertEquals(listPrice("gpt-5.4-mini-2026-03-17"), PRICES["gpt-5.4-mini"]);
  assertEquals(listPrice("google/gemini-3-pro-preview"), PRICES["gemini-3-pro"]);
});

Deno.test("listPrice() knows nothing of what is only like a model that it knows", () => {
  const names = ["", "gpt-5-turbo", "deepseek-r1:8b", "claude", "toString", "gpt-oss:20b", "gpt-5\u0000"];
  for (const name of [...names, "-latest".repeat(200_000)]) assertEquals(listPrice(name), undefined);
});

Deno.test("PRICES are dated, and ordered as every provider's are", () => {
  assert(Date.parse(PRICES_DATE) > 0);
  for (
    const [name, { input, output, cacheRead = input, cacheWrite = input, cacheWriteHour = cacheWrite }]
      of Object.entries(PRICES)
  ) {
    assert(
      0 < cacheRead && cacheRead <= input && input <= cacheWrite && cacheWrite <= cacheWriteHour &&
        input < output,
      name,
    );
    assertEquals(listPrice(name), PRICES[name]);
  }
});

Deno.test("EXAMPLE_MODELS have a price and are models of their profile's provider", () => {
  for (const [name, model] of Object.entries(EXAMPLE_MODELS)) {
    assert(listPrice(model), model);
    assertEquals(chooseProfile({ model }).dialect, profileNamed(name).dialect, model);
  }
});
