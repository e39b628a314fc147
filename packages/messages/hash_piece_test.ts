import { assertEquals } from "@std/assert";
import { hashPiece, hashText } from "@tare/messages";

Deno.test("hashText() gives whole numbers below 2^53 that tell texts apart, always the same", () => {
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
  // Its low half alone tells names apart.
  assertEquals(new Set(hashes.map((hash) => hash >>> 0)).size, texts.length);
  assertEquals(hashText("tare"), hashText(["ta", "re"].join("")));
});

Deno.test("hashPiece() knows an equal definition again, and another under the same name", () => {
  const read = { type: "function", function: { name: "read", description: "Reads a file." } } as const;
  assertEquals(hashPiece({ ...read }), hashPiece(read));
  assertEquals(hashPiece({ ...read, function: { name: "read" } }) === hashPiece(read), false);
});
