import { assertEquals } from "@std/assert";
import { pressure } from "@tare/prune";

Deno.test("pressure() asks for pruning from 0.8 of the window on, and for a fold from 0.9", () => {
  const at = (promptTokens: number) => pressure({ promptTokens, windowTokens: 1000 });
  assertEquals([0, 799, 800, 850, 899, 900, 950, 5000].map(at), [
    "none",
    "none",
    "prune",
    "prune",
    "prune",
    "fold",
    "fold",
    "fold",
  ]);
});

Deno.test("pressure() asks for nothing without a window", () => {
  assertEquals(pressure({ promptTokens: 1e9 }), "none");
  assertEquals(pressure({ promptTokens: 1e9, windowTokens: undefined }), "none");
});

Deno.test("pressure() takes other shares", () => {
  const shares = { windowTokens: 1000, pruneAt: 0.5, foldAt: 0.6 };
  assertEquals([499, 500, 600].map((promptTokens) => pressure({ promptTokens, ...shares })), [
    "none",
    "prune",
    "fold",
  ]);
});
