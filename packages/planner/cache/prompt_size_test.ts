import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import fc from "../../../tests/cases.ts";
import type { Message } from "@tare/messages";
import {
  type ByKind,
  longestSize,
  messageKinds,
  NO_TEXT,
  NO_TOKENS,
  observeSize,
  observeTokens,
  scaled,
  sizePrompt,
  type SizeRecord,
  tokenScale,
  toolKinds,
} from "./prompt_size.ts";

/** Counts by length, the same for each kind. */
const quarter = (text: string) => text.length / 4;

const WORDS = 0;
const DENSE = 2;
const CYRILLIC = 5;
const KINDS = NO_TEXT.length;
const of = (kinds: Readonly<Record<number, number>>): ByKind => NO_TEXT.map((_, kind) => kinds[kind] ?? 0);

/** Initial factor and upper bound of each kind for this counter. */
const FIRST = NO_TEXT.map((_, kind) => {
  const { tokens, atMost } = sizePrompt(undefined, of({ [kind]: 1_000_000 }), quarter);
  return { scale: tokens / 1_000_000, most: atMost / 1_000_000 };
});
const LEAST = NO_TEXT.map((_, kind) => {
  // Removed text may have counted as little as this, though the estimate is far more.
  const start = 1e10;
  const left: SizeRecord = {
    tokens: start,
    kinds: [kind],
    visible: [1e6],
    scales: [1e3],
    doubts: [1e9],
    noise: 0.2,
  };
  return (start - sizePrompt(left, NO_TEXT, quarter).atMost) / 1e6;
});

/** Textbook Kalman filter over vectors: gain, correction and remaining covariance. */
class Oracle {
  scales = FIRST.map(({ scale }) => scale);
  doubts = FIRST.map(({ scale, most }, row) =>
    FIRST.map((_, kind) => row === kind ? ((most - scale) / 2.5) ** 2 : 0)
  );
  noise = 0.2;
  #last: { readonly tokens: number; readonly visible: ByKind } | undefined;

  expected(kinds: ByKind): number {
    return kinds.reduce((sum, tokens, kind) => sum + tokens * this.scales[kind]!, 0);
  }

  observe(tokens: number, visible: ByKind): void {
    const before = this.#last ?? { tokens: 0, visible: NO_TEXT };
    const net = visible.map((count, kind) => count - before.visible[kind]!);
    const frame = this.#last ? 30 : 4_000;
    const moved = this.expected(net.map(Math.abs));
    const covariance = this.doubts.map((row) => row.reduce((sum, one, kind) => sum + one * net[kind]!, 0));
    const innovation = covariance.reduce((sum, one, kind) => sum + one * net[kind]!, 0) +
      (this.noise * moved) ** 2 + frame ** 2;
    const residual = tokens - before.tokens - this.expected(net);
    this.scales = this.scales.map((scale, kind) =>
      covariance[kind] === 0 ? scale : Math.min(
        FIRST[kind]!.most,
        Math.max(LEAST[kind]!, scale + covariance[kind]! * residual / innovation),
      )
    );
    this.doubts = this.doubts.map((row, one) =>
      row.map((doubt, other) => doubt - covariance[one]! * covariance[other]! / innovation)
    );
    const rest = Math.max(0, Math.abs(tokens - before.tokens - this.expected(net)) - frame);
    this.noise = Math.max(0.03, 0.8 * this.noise, Math.min(1, moved > 0 ? rest / moved : 0));
    for (const [kind, change] of net.entries()) {
      if (change !== 0) this.doubts[kind]![kind]! += (0.01 * this.scales[kind]!) ** 2;
    }
    this.#last = { tokens, visible };
  }

  size(kinds: ByKind): { readonly tokens: number; readonly atLeast: number; readonly atMost: number } {
    const before = this.#last ?? { tokens: 0, visible: NO_TEXT };
    const net = kinds.map((count, kind) => count - before.visible[kind]!);
    const tokens = Math.max(0, before.tokens + this.expected(net));
    const sum = (of: (change: number, kind: number) => number) =>
      net.reduce((sum, one, kind) => sum + of(one, kind), before.tokens);
    const low = sum((one, kind) => one * (one > 0 ? LEAST[kind]! : FIRST[kind]!.most));
    const high = sum((one, kind) => one * (one > 0 ? FIRST[kind]!.most : LEAST[kind]!));
    const variance = this.doubts.reduce(
      (sum, row, one) => sum + row.reduce((sum, doubt, other) => sum + doubt * net[one]! * net[other]!, 0),
      0,
    );
    const margin = 3 * Math.sqrt(Math.max(0, variance)) +
      2 * this.noise * (this.expected(net.map(Math.abs)) + 0.05 * tokens);
    return {
      tokens,
      atLeast: Math.max(0, low, tokens - margin),
      atMost: Math.max(tokens, Math.min(high, tokens + margin)),
    };
  }
}

const prompt = fc.array(fc.tuple(fc.nat(KINDS - 1), fc.integer({ min: 1, max: 20_000 })), {
  minLength: 1,
  maxLength: 3,
})
  .map((counts) => of(Object.fromEntries(counts)));

Deno.test("sizePrompt() and observeSize() follow a Kalman filter over the kinds of text", () => {
  fc.assert(fc.property(
    fc.array(fc.tuple(prompt, fc.double({ min: 0.3, max: 4, noNaN: true })), { minLength: 1, maxLength: 6 }),
    prompt,
    (calls, next) => {
      const oracle = new Oracle();
      let record: SizeRecord | undefined;
      const close = (actual: number, expected: number) =>
        assertAlmostEquals(actual, expected, 10 + 3e-3 * Math.abs(expected));
      for (const [kinds, factor] of calls) {
        const size = sizePrompt(record, kinds, quarter);
        const wanted = oracle.size(kinds);
        for (const bound of ["tokens", "atLeast", "atMost"] as const) close(size[bound], wanted[bound]);
        const tokens = Math.round(factor * kinds.reduce((sum, one) => sum + one, 0));
        record = observeSize({ tokens, kinds }, { record, countTokens: quarter });
        oracle.observe(tokens, kinds);
        assertAlmostEquals(record.noise, oracle.noise, 1e-3);
        for (const [at, kind] of record.kinds.entries()) {
          assertAlmostEquals(record.scales[at]!, oracle.scales[kind]!, 1e-3 * oracle.scales[kind]! + 1e-6);
        }
      }
      close(sizePrompt(record, next, quarter).tokens, oracle.size(next).tokens);
    },
  ));
});

Deno.test("observeSize() keeps factors within the range of tokenizers, whatever is reported", () => {
  const kinds = of({ [WORDS]: 50_000 });
  for (const [tokens, bound] of [[10_000_000, FIRST[WORDS]!.most], [1, LEAST[WORDS]!]] as const) {
    const { scales } = observeSize({ tokens, kinds }, { record: undefined, countTokens: quarter });
    assertAlmostEquals(scales[0]!, bound, 1e-4);
  }
});

Deno.test("sizePrompt() trusts a counter like a tokenizer, and corrects one that counts by length", () => {
  /** Counts words, random strings and Han by these shares of the usual rates, and other text by length. */
  const counter = ([words, dense, han]: readonly [number, number, number]) => (text: string) => {
    if (/\p{Script=Han}/u.test(text)) return han * text.length;
    if (/^[A-Za-z\d]+$/.test(text)) return 0.75 * dense * text.length;
    return (/^[A-Za-z ]+$/.test(text) ? 0.23 * words : 0.5) * text.length;
  };
  const tokens = (countTokens: (text: string) => number) =>
    sizePrompt(undefined, of({ [CYRILLIC]: 1_000 }), countTokens).tokens;
  for (const shares of [[1, 1, 1], [0.61, 2.49, 1], [2.49, 1, 0.61], [1, 0.61, 2.49]] as const) {
    assertEquals(tokens(counter(shares)), 1_000);
  }
  for (const share of [0.59, 2.51]) {
    for (const shares of [[share, 1, 1], [1, share, 1], [1, 1, share]] as const) {
      // The usual rate of Cyrillic is 0.35 per letter; half a token is counted.
      assertAlmostEquals(tokens(counter(shares)), 700, 1e-6);
    }
  }
});

Deno.test("sizePrompt() is bounded by the range of tokenizers per kind, with a slack of 1.3", () => {
  const kinds = of({ [WORDS]: 1_000_000 });
  // Rates of words are 0.12 to 0.45 per letter; a quarter is counted.
  assertAlmostEquals(sizePrompt(undefined, kinds, quarter).atMost, 1e6 * 1.3 * 0.45 / 0.25, 1);
  assertAlmostEquals(longestSize(kinds, quarter), 1e6 * 1.3 * 0.45 / 0.25, 1);
  const { scales } = observeSize({ tokens: 1, kinds }, { record: undefined, countTokens: quarter });
  assertAlmostEquals(scales[0]!, 0.12 / 1.3 / 0.25, 1e-4);
});

Deno.test("observeSize() raises its noise at once when texts of a kind differ, and lowers it step by step", () => {
  let record = observeSize({ tokens: 10_000, kinds: of({ [WORDS]: 10_000 }) }, {
    record: undefined,
    countTokens: quarter,
  });
  const seen: number[] = [];
  const add = (tokens: number) => {
    const kinds = of({ [WORDS]: record.visible[0]! + 1_000 });
    record = observeSize({ tokens: record.tokens + tokens, kinds }, { record, countTokens: quarter });
    seen.push(record.noise);
  };
  for (let call = 0; call < 20; call++) add(1_000);
  assertAlmostEquals(seen.at(-1)!, 0.03, 1e-9);
  add(1_900);
  assert(seen.at(-1)! > 0.3, `${seen.at(-1)}`);
  const high = seen.at(-1)!;
  add(1_000);
  assert(seen.at(-1)! >= 0.79 * high, `${seen.at(-1)} after ${high}`);
});

Deno.test("observeSize() keeps its noise when the same prompt is reported again", () => {
  const options = { countTokens: quarter };
  const prompt = { tokens: 1_000, kinds: of({ [WORDS]: 1_000 }) };
  const record = observeSize(prompt, { record: undefined, ...options });
  assertAlmostEquals(observeSize(prompt, { record, ...options }).noise, 0.8 * record.noise, 1e-4);
});

Deno.test("observeSize() adds uncertainty to a kind with each call", () => {
  const options = { countTokens: quarter };
  let record = observeSize({ tokens: 100_000, kinds: of({ [WORDS]: 100_000 }) }, {
    record: undefined,
    ...options,
  });
  for (let call = 1; call < 50; call++) {
    const kinds = of({ [WORDS]: 100_000 * (call + 1) });
    record = observeSize({ tokens: 100_000 * (call + 1), kinds }, { record, ...options });
  }
  // Without drift the variance would approach 0; a call leaves that of one step of a hundredth.
  assert(record.doubts[0]! > (0.01 * record.scales[0]!) ** 2, `${record.doubts[0]}`);
});

Deno.test("observeSize() stores the observed kinds in order, and the model's name", () => {
  const first = observeSize({ model: "m", tokens: 500, kinds: of({ [DENSE]: 100 }) }, {
    record: undefined,
    countTokens: quarter,
  });
  assertEquals([first.model, first.kinds, first.visible, first.doubts.length], ["m", [DENSE], [100], 1]);
  const next = observeSize({ tokens: 500, kinds: of({ [WORDS]: 7 }) }, {
    record: first,
    countTokens: quarter,
  });
  assertEquals(["model" in next, next.kinds, next.visible, next.doubts.length], [
    false,
    [WORDS, DENSE],
    [7, 0],
    4,
  ]);
});

Deno.test("longestSize() is the total of the highest rate of each kind", () => {
  const visible = of({ [WORDS]: 100, [DENSE]: 10 });
  assertAlmostEquals(longestSize(visible, quarter), 100 * FIRST[WORDS]!.most + 10 * FIRST[DENSE]!.most, 1e-6);
});

Deno.test("messageKinds() divides a message's tokens among the kinds of its text, in whole numbers", () => {
  const kindsOf = (message: Message) => {
    const kinds = messageKinds(message, (text) => text.length);
    return Object.fromEntries([...kinds.entries()].filter(([, tokens]) => tokens !== 0));
  };
  const user = (content: Message["content"]) => kindsOf({ role: "user", content } as Message);
  const dense = "mQ7xTz0pVb3Kd9RfLw2yHs8UjNc4";
  // Tokens beyond the text belong to its largest kind.
  assertEquals(Object.keys(user("a few words in a row")), ["0"]);
  assertEquals(Object.keys(user("12 34 56 78, 90")).includes("1"), true);
  assertEquals(Object.keys(user(dense)), ["2"]);
  assertEquals(Object.keys(user("packages/planner/cache/prompt")), ["0", "1"]);
  assertEquals(Object.keys(user(dense.slice(0, 23))), ["0", "1"]);
  assertEquals(Object.keys(user(dense.slice(0, 24))), ["2"]);
  assertEquals(Object.keys(user("HELLO WORLD")), ["0"]);
  assertEquals(user("漢".repeat(5) + " ".repeat(5)), { 0: 7, 11: 7 });
  assertEquals(Object.keys(user("aBcDeFgHiJkLmNoPqRsTuVwX")), ["2"]);
  // At least a twelfth of a run must be digits.
  assertEquals(Object.keys(user(`${"a".repeat(22)}12`)), ["2"]);
  assertEquals(Object.keys(user(`${"a".repeat(23)}12`)), ["0", "1"]);
  assertEquals(Object.keys(user("mQ7x+z0pVb3/d9Rf_w2y-s8=")), ["2"]);
  assertEquals(Object.keys(user("mQ7xTz0pVb3K;9RfLw2yHs8U")), ["0", "1"]);
  assertEquals(Object.keys(user("\u0080".repeat(30))), ["3"]);
  const scripts = ["ä", "Ω", "Ж", "ש", "ع", "ह", "ไ", "あ", "漢", "한", "🙂"];
  assertEquals(
    scripts.map((letter) => Object.keys(user(letter.repeat(30)))),
    scripts.map((_, at) => [`${at + 3}`]),
  );
  const edges: readonly (readonly [number, number])[] = [
    [0x24f, 3],
    [0x250, 13],
    [0x370, 4],
    [0x3ff, 4],
    [0x400, 5],
    [0x52f, 5],
    [0x530, 13],
    [0x58f, 13],
    [0x590, 6],
    [0x5ff, 6],
    [0x600, 7],
    [0x8ff, 7],
    [0x900, 8],
    [0xdff, 8],
    [0xe00, 9],
    [0x10ff, 9],
    [0x1100, 12],
    [0x11ff, 12],
    [0x1200, 13],
    [0x177f, 13],
    [0x1780, 9],
    [0x1800, 13],
    [0x1e00, 3],
    [0x1eff, 3],
    [0x1f00, 4],
    [0x1fff, 4],
    [0x2000, 13],
    [0x2e80, 11],
    [0x303f, 11],
    [0x3040, 10],
    [0x312f, 10],
    [0x3130, 12],
    [0x318f, 12],
    [0x3190, 11],
    [0x31f0, 10],
    [0x31ff, 10],
    [0x3200, 11],
    [0x9fff, 11],
    [0xa000, 13],
    [0xac00, 12],
    [0xd7af, 12],
    [0xf900, 11],
    [0xfb00, 3],
    [0xfb1d, 6],
    [0xfb50, 7],
    [0xfe00, 13],
    [0xfe70, 7],
    [0xff00, 11],
    [0xff65, 10],
    [0xffa0, 13],
  ];
  for (const [code, kind] of edges) {
    const text = String.fromCharCode(code).repeat(30);
    assertEquals([code.toString(16), Object.keys(user(text))], [code.toString(16), [`${kind}`]]);
  }
  const mixed = user("words and 漢字漢字漢字漢字");
  assertEquals(Object.keys(mixed), ["0", "11"]);
  const whole = Object.values(mixed);
  assert(whole.every(Number.isInteger));
  assertEquals(
    whole.reduce((sum, one) => sum + one, 0),
    Object.values(user("w".repeat(22))).reduce((a, b) => a + b, 0) - 4,
  );
});

Deno.test("messageKinds() counts every text of a message, and other content as media", () => {
  const total = (message: Message) =>
    messageKinds(message, (text) => text.length).reduce((sum, one) => sum + one, 0);
  const kinds = (message: Message) => messageKinds(message, (text) => text.length);
  const image = { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } } as const;
  const pictured = kinds({ role: "user", content: [image, { type: "text", text: "words" }] });
  assert(pictured[14]! > 0);
  assertEquals(kinds({ role: "user", content: [{ type: "text", text: "words" }] })[14], 0);
  const call = { id: "1", type: "function", function: { name: "漢漢漢漢", arguments: "ЖЖЖЖ" } } as const;
  const replied = kinds({
    role: "assistant",
    content: [{ type: "refusal", refusal: "ωωωω" }],
    reasoning_content: "אאאא",
    refusal: "عععع",
    tool_calls: [call],
  });
  for (const kind of [4, 5, 6, 7, 11]) assert(replied[kind]! > 0, `kind ${kind}`);
  const sealed = kinds({
    role: "assistant",
    content: "a",
    reasoning_content: "אאאא",
    carried: { tokens: 9 },
  });
  assertEquals(sealed[6], 0);
  assertEquals(total({ role: "user", content: "" }) > 0, true);
  const tool = { type: "function", function: { name: "f" } } as const;
  const tools = toolKinds([tool, tool], (text) => text.length);
  assertEquals(tools, toolKinds([tool], (text) => text.length).map((one) => 2 * one));
});

Deno.test("tokenScale() distinguishes another tokenizer from an unseen prefix by calls of different lengths", () => {
  const seen = (...calls: readonly (readonly [ours: number, theirs: number])[]) =>
    tokenScale(calls.reduce((record, [ours, theirs]) => observeTokens({ ours, theirs }, record), NO_TOKENS));
  assertEquals(tokenScale(NO_TOKENS), { perToken: 1, unseen: 0 });
  // One length alone indicates a prefix, and a lower count a coarser tokenizer.
  assertEquals(seen([1_000, 3_000]), { perToken: 1, unseen: 2_000 });
  assertEquals(seen([1_000, 500]), { perToken: 0.5, unseen: 0 });
  const far = (perToken: number, unseen: number) =>
    seen(...[0, 50_000, 100_000, 150_000].map((ours) => [ours, unseen + perToken * ours] as const));
  assertEquals(far(1.5, 2_000).perToken, 1.5);
  assertAlmostEquals(far(1.5, 2_000).unseen, 2_000, 1e-6);
  assertEquals([far(9, 0).perToken, far(0.1, 90_000).perToken], [3, 0.5]);
  // A difference of lengths like that of the prior counts half.
  const half = seen([0, 0], [8_000, 16_000]);
  assertEquals(half.perToken, 1.66);
  assertEquals([scaled({ perToken: 2, unseen: 5 }, 10), scaled({ perToken: 1, unseen: -50 }, 10)], [25, 0]);
});
