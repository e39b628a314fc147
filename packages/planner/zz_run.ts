import { loadTokenizer } from "@tare/messages/tiktoken";
import { playWindow, type Counter } from "./window_fixture_test.ts";
const { count } = await loadTokenizer();
const memo = new Map<string, number>();
const exact = (t: string) => { let n = memo.get(t); if (n === undefined) memo.set(t, n = count(t)); return n; };
const [from, to] = Deno.args.map(Number) as [number, number];
for (const counter of ["estimating", "undercounting", "exact"] as Counter[]) {
  let calls = 0, over = 0, sess = 0, refused = 0, twice = 0, tooLong: number[] = [], use = 0; const worst: string[] = [];
  const t = performance.now();
  for (let seed = from; seed < to; seed++) {
    const p = await playWindow(seed, { counter, exact });
    calls += p.calls; over += p.over.length; if (p.over.length) sess++; refused += p.refused; twice += p.refusedTwice; use += p.use;
    if (p.tooLong !== undefined) tooLong.push(p.tooLong);
    for (const o of p.over) worst.push(`${seed}#${o.call}:${(o.tokens/o.windowTokens).toFixed(3)}@${o.windowTokens}`);
    if (seed % 50 === 0) memo.clear();
  }
  tooLong.sort((a,b)=>a-b);
  console.log(counter, { calls, over, sess, refused, twice, tooLong: tooLong.length, below1: tooLong.filter((x) => x < 1).length, min: tooLong[0]?.toFixed(2), use: (use / (to - from)).toFixed(3), sec: ((performance.now() - t) / 1000).toFixed(1) });
  console.log(worst.slice(0, 12).join(" "));
}
