import { assertEquals, assertRejects, assertStrictEquals } from "@std/assert";
import fc from "../../tests/cases.ts";
import { Tiktoken } from "js-tiktoken/lite";
import cl100k_base from "js-tiktoken/ranks/cl100k_base";
import gpt2 from "js-tiktoken/ranks/gpt2";
import o200k_base from "js-tiktoken/ranks/o200k_base";
import p50k_edit from "js-tiktoken/ranks/p50k_edit";
import { loadTokenizer, type Tokenizer } from "@tare/tiktoken";
import { codePoints } from "../../tests/code_points.ts";

const o200k = new Tiktoken(o200k_base);

const samples = [
  "",
  " ",
  "\n",
  "\r\n\t \u00a0\u3000x",
  "Hello, world! It's 12345 o'clock; they'LL'd've.",
  "  four   spaces\n\n\n  and lines  \n",
  "const f = async (a: string[]): Promise<void> => { await Promise.all(a.map((x) => g(x))); };\n",
  "function a(b,c){return b?c[b]||(c[b]=new Map):0}",
  '{"path":"src/a.ts","range":[1,20],"re":"\\\\d+"}',
  "Größe, naïve café, Ελληνικά, Съешь же ещё, עברית, العربية, हिन्दी, ไทย",
  "今日は世界。한국어 문장입니다. 😀👩‍👩‍👧‍👦🏳️‍🌈 e\u0301 \u0000\u0001\ufeff\u200b",
  "中AAAAbbb CamelCaseHTTPServer snake_case_name",
  "https://example.com/a/b?c=d&e=f#g // ---- ======== ****",
  "<|endoftext|><|endofprompt|> <|fim_prefix|>",
  "aGVsbG8gd29ybGQgdGhpcyBpcyBiYXNlNjQgdGV4dA==",
];

Deno.test("loadTokenizer() encodes samples like js-tiktoken in each encoding", async () => {
  const encodings = { o200k_base, cl100k_base, gpt2, p50k_edit };
  for (const [encoding, data] of Object.entries(encodings)) {
    const exact = new Tiktoken(data);
    const tokenizer = await loadTokenizer({ encoding: encoding as Tokenizer["encoding"] });
    for (const sample of samples) {
      const expected = exact.encode(sample, [], []);
      assertEquals([tokenizer.encode(sample), tokenizer.count(sample)], [expected, expected.length], sample);
    }
  }
});

Deno.test("loadTokenizer() encodes ordinary text like js-tiktoken", async () => {
  const { encode, count } = await loadTokenizer();
  const piece = fc.oneof(
    fc.lorem({ maxCount: 5 }),
    fc.constantFrom(...samples),
    fc.constantFrom(" ", "  ", "\n", "\r\n", "\t", "'s", "'LL", "/", "...", "12345", "\u3000"),
    fc.string({ unit: "grapheme" }),
    fc.string({ unit: codePoints() }),
    fc.json(),
    fc.base64String(),
  );
  fc.assert(fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
    const text = pieces.join("");
    const expected = o200k.encode(text, [], []);
    assertEquals([encode(text), count(text)], [expected, expected.length]);
  }));
});

Deno.test("loadTokenizer() encodes lone surrogates as U+FFFD, like TextEncoder", async () => {
  const { encode, count } = await loadTokenizer();
  fc.assert(fc.property(fc.string({ unit: fc.constantFrom("\ud83d", "\ude00", "a", " ", "é") }), (text) => {
    assertEquals(encode(text), encode(new TextDecoder().decode(new TextEncoder().encode(text))));
  }));
  assertEquals(encode("a\ud800b"), o200k.encode("a\ufffdb"));
  assertEquals(count("\udc00".repeat(100_000)), count("\ufffd".repeat(100_000)));
});

Deno.test("loadTokenizer() encodes special-token strings as ordinary text", async () => {
  const { encode, count } = await loadTokenizer();
  assertEquals(encode("<|endoftext|>"), o200k.encode("<|endoftext|>", [], []));
  const [one, two] = [count("<|endoftext|>"), count("<|endoftext|>".repeat(2))];
  assertEquals(count("<|endoftext|>".repeat(80_000)), one + 79_999 * (two - one));
});

Deno.test("loadTokenizer() counts a megabyte of any text", async () => {
  const { count } = await loadTokenizer();
  const megabyte = (unit: string) => count(unit.repeat(1_000_000 / unit.length));
  assertEquals(
    ["a", "A", "1", " ", "\n", "中", "😀", " x", "\ud800"].map(megabyte),
    [125_000, 125_000, 333_334, 7_813, 62_500, 1_000_000, 500_000, 500_000, 125_000],
  );
});

Deno.test("loadTokenizer() returns one tokenizer per encoding", async () => {
  const [first, second, byModel, other] = await Promise.all([
    loadTokenizer(),
    loadTokenizer({ encoding: "o200k_base" }),
    loadTokenizer({ model: "gpt-4o" }),
    loadTokenizer({ encoding: "cl100k_base" }),
  ]);
  assertStrictEquals(first.count, second.count);
  assertStrictEquals(first.encode, byModel.encode);
  assertEquals([first.encoding, other.encoding], ["o200k_base", "cl100k_base"]);
});

Deno.test("loadTokenizer() selects the encoding by model and reports an estimate for unknown models", async () => {
  const picked: [Tokenizer["encoding"], boolean][] = [];
  for (
    const model of ["gpt-4", "gpt-5-mini", "text-davinci-003", "davinci", "gpt2", "some-other-model", ""]
  ) {
    const { encoding, estimated } = await loadTokenizer({ model });
    picked.push([encoding, estimated]);
  }
  assertEquals(picked, [
    ["cl100k_base", false],
    ["o200k_base", false],
    ["p50k_base", false],
    ["r50k_base", false],
    ["gpt2", false],
    ["o200k_base", true],
    ["o200k_base", true],
  ]);
  const { encoding, estimated } = await loadTokenizer({ model: "some-other-model", encoding: "gpt2" });
  assertEquals([encoding, estimated], ["gpt2", false]);
  assertEquals((await loadTokenizer()).estimated, false);
});

Deno.test("loadTokenizer() throws for an unknown encoding and lists the known ones", async () => {
  for (const encoding of ["o300k_base", "toString", ""]) {
    await assertRejects(
      () => loadTokenizer({ encoding: encoding as Tokenizer["encoding"] }),
      RangeError,
      `Cannot load encoding "${encoding}": it is unknown. Use o200k_base, cl100k_base, p50k_base`,
    );
  }
});
