import { assertEquals } from "@std/assert";
import type { CountTokens } from "@tare/messages";
import { loadTokenizer } from "@tare/tiktoken";
import { type Counter, playWindow } from "../window_sessions.ts";
import { cases, SEED } from "../cases.ts";

const SESSIONS = cases(8);

const { count } = await loadTokenizer();

for (const counter of ["exact", "estimating", "undercounting"] satisfies readonly Counter[]) {
  Deno.test(`invariant 10: no request exceeds its window, whatever is written, named or pinned, with a counter that is ${counter}`, async () => {
    for (let seed = SEED; seed < SEED + SESSIONS; seed++) {
      const { over, refusedTwice } = await playWindow(seed, { counter, exact: remembering(count) });
      assertEquals({ seed, over, refusedTwice }, { seed, over: [], refusedTwice: 0 });
    }
  });
}

function remembering(count: CountTokens): CountTokens {
  const counted = new Map<string, number>();
  return (text) => {
    let tokens = counted.get(text);
    if (tokens === undefined) counted.set(text, tokens = count(text));
    return tokens;
  };
}
