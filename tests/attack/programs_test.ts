import { assert, assertStringIncludes } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { cases } from "../cases.ts";

interface Taken {
  readonly content: string;
  readonly cpuMs: number;
  readonly peakBytes: number;
}

async function taken(...programs: readonly string[]): Promise<readonly Taken[]> {
  const script = fromFileUrl(new URL("program_bombs.ts", import.meta.url));
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--frozen", "--no-check", "-A", script, ...programs],
  }).output();
  const lines = new TextDecoder().decode(stdout).split("\n").filter((line) => line !== "");
  assert(lines.length === programs.length, new TextDecoder().decode(stderr));
  return lines.map((line) => JSON.parse(line));
}

const LOOPS = [
  "for (;;) {}",
  "tools.slow(); for (;;) 'x'.repeat(1e6);",
  "const all = Array(1e5).fill(1); for (;;) JSON.stringify(all);",
  "/^(a+)+$/.test('a'.repeat(40) + 'b');",
  "for (;;) try { throw 1; } catch {}",
  "new Array(2 ** 32 - 1).join('');",
];

Deno.test("programs: an endless loop ends after three seconds of processor time, whatever it computes", async () => {
  // Each in a process of its own: an ended worker may compute for a while.
  for (const loop of LOOPS) {
    const [{ content, cpuMs }] = await taken(loop) as [Taken];
    assertStringIncludes(content, "It computed for too long", loop);
    // Includes the start of a worker and the engine's compilation.
    assert(cpuMs < 10_000, `${loop}: ${cpuMs} ms`);
  }
});

const BOMBS = [
  'const all = []; for (;;) all.push("x".repeat(1000) + all.length);',
  "const all = []; for (;;) all.push(new Uint8Array(1e6).fill(1));",
  "const all = []; for (;;) all.push({});",
  "const all = []; for (let n = 0; n < 50; n++) all.push(new Uint8Array(1e6).fill(1));",
];

Deno.test("programs: memory of consecutive bombs stays under 400 MiB", async () => {
  const bombs = Array.from({ length: 4 * cases(4) }, (_, at) => BOMBS[at % BOMBS.length]!);
  const peak = (await taken(...bombs)).at(-1)!.peakBytes / 2 ** 20;
  assert(peak < 400, `${peak} MiB`);
});
