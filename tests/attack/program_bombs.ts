// Runs programs in order, and prints the processor time and memory of each.
import process from "node:process";
import { playProgram } from "../../packages/tools/programs/play_program.ts";

const signal = new AbortController().signal;
const calls = { beganAtMs: 17, call: () => new Promise<never>(() => {}) };

let peakBytes = 0;
const sampling = setInterval(() => peakBytes = Math.max(peakBytes, process.memoryUsage.rss()), 20);
for (const code of Deno.args) {
  const before = process.cpuUsage();
  const output = await playProgram(code, { calls, callId: "p", signal });
  peakBytes = Math.max(peakBytes, process.memoryUsage.rss());
  const { user, system } = process.cpuUsage(before);
  const content = typeof output === "string" ? output : output.content;
  // deno-lint-ignore no-console -- Its output is the result.
  console.log(JSON.stringify({ content, cpuMs: (user + system) / 1_000, peakBytes }));
}
clearInterval(sampling);
Deno.exit();
