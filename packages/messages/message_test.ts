import { assertEquals } from "@std/assert";
import { contentText, type Message } from "@tare/messages";
import { firstWords, hashPiece, hashText, sameData, transcribe } from "@tare/messages/internal";

Deno.test("contentText() joins the texts of parts and skips media", () => {
  assertEquals(contentText("plain"), "plain");
  assertEquals(contentText(null), "");
  assertEquals(
    contentText([
      { type: "text", text: "a" },
      { type: "image_url", image_url: { url: "x" } },
      { type: "refusal", refusal: "b" },
    ]),
    "a\nb",
  );
});

function calling(input: string): Message {
  return {
    role: "assistant",
    content: "I look.",
    tool_calls: [{ id: "1", type: "function", function: { name: "run", arguments: input } }],
  };
}

Deno.test("transcribe() writes roles and texts with their line breaks", () => {
  assertEquals(transcribe({ role: "tool", tool_call_id: "1", content: "one\ntwo" }), "tool:\none\ntwo");
  assertEquals(transcribe({ role: "assistant", content: null, refusal: "No." }), "assistant:");
});

Deno.test("transcribe() names media", () => {
  const image = { type: "image_url", image_url: { url: "data:image/png;base64,AA" } } as const;
  assertEquals(
    transcribe({ role: "user", content: [{ type: "text", text: "Look:" }, image] }),
    "user:\nLook:\n(image_url)",
  );
});

Deno.test("transcribe() lists a call's arguments, and writes other input unchanged", () => {
  const inputs = ['{"path":"a.ts","limit":[1,2],"text":"x\\ny"}', "[1]", "free\ntext", "", "null"];
  assertEquals(inputs.map((input) => transcribe(calling(input)).replace("assistant:\nI look.\n", "")), [
    "calls run\npath: a.ts\nlimit: [1,2]\ntext: x\ny",
    "calls run\n[1]",
    "calls run\nfree\ntext",
    "calls run\n",
    "calls run\nnull",
  ]);
});

Deno.test("firstWords() returns one line of at most 120 code units with intact characters", () => {
  assertEquals([firstWords(undefined), firstWords(null), firstWords("  \n")], ["", "", ""]);
  assertEquals(firstWords([{ type: "text", text: "a\tb" }, { type: "text", text: "c" }]), "a b c");
  assertEquals(firstWords("x".repeat(500)), "x".repeat(120));
  assertEquals(firstWords(`${"x".repeat(119)}\u{1f600}`), "x".repeat(119));
  assertEquals(firstWords(`${"x".repeat(118)}\u{1f600}`), `${"x".repeat(118)}\u{1f600}`);
});

Deno.test("hashText() returns reproducible integers below 2^53 without collisions", () => {
  const texts = [
    "",
    "a",
    "b",
    "ab",
    "ba",
    "aa",
    "\u0000",
    "ä",
    "😀",
    ...Array.from({ length: 20_000 }, (_, n) => `${n}`),
  ];
  const hashes = texts.map(hashText);
  assertEquals(hashes.filter((hash) => !Number.isSafeInteger(hash) || hash < 0), []);
  assertEquals(new Set(hashes).size, texts.length);
  // The low half alone is unique.
  assertEquals(new Set(hashes.map((hash) => hash >>> 0)).size, texts.length);
  assertEquals(hashText("tare"), hashText(["ta", "re"].join("")));
});

Deno.test("hashPiece() returns equal hashes for equal definitions, others for others", () => {
  const read = { type: "function", function: { name: "read", description: "Reads a file." } } as const;
  assertEquals(hashPiece({ ...read }), hashPiece(read));
  assertEquals(hashPiece({ ...read, function: { name: "read" } }) === hashPiece(read), false);
});

Deno.test("sameData() compares JSON, bytes and URLs by value", () => {
  const same: readonly (readonly [unknown, unknown])[] = [
    [{ a: 1, b: [2, { c: null }] }, { b: [2, { c: null }], a: 1 }],
    [new Uint8Array([1, 2]), new Uint8Array([0, 1, 2]).subarray(1)],
    [new URL("https://a.test"), new URL("https://a.test/")],
    [{ a: undefined }, { a: undefined }],
  ];
  const others: readonly (readonly [unknown, unknown])[] = [
    [{ a: undefined, c: 1 }, { b: 2, c: 1 }],
    [[1, 2], { 0: 1, 1: 2 }],
    [{ 0: 1, 1: 2 }, [1, 2]],
    [[1, 2], [2, 1]],
    [{ a: 1 }, { a: 1, b: undefined }],
    [new Uint8Array([1, 2]), new Uint8Array([1, 3])],
    [new URL("https://a.test"), new URL("https://b.test")],
    [{}, null],
    ["1", 1],
  ];
  for (const [one, other] of same) assertEquals([sameData(one, other), sameData(other, one)], [true, true]);
  for (const [one, other] of others) {
    assertEquals([sameData(one, other), sameData(other, one)], [false, false]);
  }
});
