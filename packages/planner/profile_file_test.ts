import { assertEquals, assertThrows } from "@std/assert";
import { chooseProfile, profileNamed } from "./providers.ts";
import { readProfileFile } from "./profile_file.ts";

const CACHE_LIFETIME = [{ idleMs: 60_000, probability: 0.98 }, { idleMs: 3_600_000, probability: 0.3 }];

Deno.test("readProfileFile() takes fields from the file, and the rest from the named profile", () => {
  assertEquals(
    readProfileFile(
      JSON.stringify({
        profile: "openai",
        name: "openai, measured",
        ttlMs: 60_000,
        cacheLifetime: CACHE_LIFETIME,
      }),
    ).profile,
    { ...profileNamed("openai"), name: "openai, measured", ttlMs: 60_000, cacheLifetime: CACHE_LIFETIME },
  );
  assertEquals(readProfileFile('{"profile": "deepseek"}').profile, profileNamed("deepseek"));
  assertEquals(readProfileFile('{"profile": "none", "cacheLifetime": []}').profile, chooseProfile({}));
  const price = { input: 3, output: 15, cacheRead: 0, long: { aboveTokens: 5, input: 2, output: 2 } };
  assertEquals(readProfileFile(JSON.stringify({ profile: "local", price })).profile?.price, price);
});

Deno.test("readProfileFile() reads prices by model, with and without a profile", () => {
  const price = {
    ...{ input: 3, output: 15 },
    long: { aboveTokens: 5, input: 2, output: 2, except: ["priority"] },
    tiers: { priority: 2.5 },
    regions: { us: 1.1 },
    tools: { web_search: 0, code_execution: 0.01 },
  };
  const prices = { m: price, other: { input: 0, output: 0 } };
  assertEquals(readProfileFile(JSON.stringify({ prices })), { prices });
  const both = readProfileFile(JSON.stringify({ profile: "openai", prices }));
  assertEquals(both, { profile: profileNamed("openai"), prices });
});

Deno.test("readProfileFile() throws naming the field and the requirement", () => {
  const faults: [unknown, string][] = [
    [[], "it is not a JSON object."],
    [{ cacheLifetime: CACHE_LIFETIME }, "profile is missing. It must be one of anthropic-5m, "],
    [{ profile: "x" }, 'profile is "x". It must be one of anthropic-5m, '],
    [{ profile: "none", warm: [] }, 'unknown field "warm". Known fields: profile, name, minTokens, '],
    [{ profile: "none", name: "" }, 'name is "". It must be a non-empty string'],
    [{ profile: "none", read: "0.1" }, 'read is "0.1". It must be a number from 0'],
    [{ profile: "none", write: -1 }, "write is -1. It must be a number from 0"],
    [
      { profile: "none", price: { input: 3 } },
      'price is {"input":3}. It must be dollars per million tokens, ',
    ],
    [{ profile: "none", price: 3 }, "price is 3. It must be dollars per million tokens, such as "],
    [
      { profile: "none", price: { input: 3, output: "15" } },
      'price is {"input":3,"output":"15"}. It must be ',
    ],
    [{ profile: "none", price: { input: 3, output: 1, read: 1 } }, "price is {"],
    [{ profile: "none", price: { input: 3, output: 1, long: { aboveTokens: 1 } } }, "price is {"],
    [{ profile: "none", price: { input: 3, output: 1, tiers: { priority: "2" } } }, "price is {"],
    [{ profile: "none", price: { input: 3, output: 1, tools: [0.01] } }, "price is {"],
    [
      { prices: { m: 3 } },
      'prices is {"m":3}. It must be an object with prices by model name; each dollars ',
    ],
    [{ prices: {}, ttlMs: 3 }, "profile is missing. It must be one of "],
    [{ profile: "none", blockTokens: 0 }, "blockTokens is 0. It must be a whole number from 1"],
    [{ profile: "none", minTokens: 1.5 }, "minTokens is 1.5. It must be a whole number from 0"],
    [{ profile: "none", dialect: "x" }, 'dialect is "x". It must be one of anthropic, '],
    [{ profile: "none", cacheLifetime: {} }, "cacheLifetime is {}. It must be a list of entries such as "],
    [
      { profile: "none", cacheLifetime: [{ idleMs: 1 }] },
      "cacheLifetime[0].probability is missing. It must be a number from 0 to 1",
    ],
    [
      { profile: "none", cacheLifetime: [{ idleMs: 1, probability: 1.4 }] },
      "cacheLifetime[0].probability is 1.4. It must be a number from 0 to 1",
    ],
    [
      { profile: "none", cacheLifetime: [{ idleMs: "1m", probability: 1 }] },
      'cacheLifetime[0].idleMs is "1m". It must be a number above 0',
    ],
    [{ profile: "none", cacheLifetime: [null] }, "cacheLifetime[0] is null. It must be an entry such as "],
    [
      { profile: "none", cacheLifetime: [{ idleMs: 2, probability: 1 }, { idleMs: 2, probability: 0 }] },
      "cacheLifetime[1].idleMs is 2. It must be a number above 2",
    ],
    [
      { profile: "none", cacheLifetime: [{ idleMs: 1, probability: 0.5 }, { idleMs: 2, probability: 0.6 }] },
      "cacheLifetime[1].probability is 0.6. It must be a number from 0 to 0.5: a lost prefix doesn't return",
    ],
  ];
  for (const [file, message] of faults) {
    assertThrows(
      () => readProfileFile(JSON.stringify(file)),
      RangeError,
      `Cannot use the profile: ${message}`,
    );
  }
  assertThrows(() => readProfileFile("{"), RangeError, "Cannot use the profile: invalid JSON (");
});
