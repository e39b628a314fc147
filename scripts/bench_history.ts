/**
 * Makes logs of agents, and measures how fast `tare history` reads them and how much memory it takes.
 *
 *     deno task bench:history [--lines 1000000] [--seconds 10]
 *
 * `--seconds` is how long sessions are played again behind that, as the command's own.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import { claudeCodeLines, codexLines, type MadeSession, piLines } from "./bench/history/made_logs.ts";
import { generateWorkload } from "./bench/economy/workload.ts";

const { values } = parseArgs({
  options: { lines: { type: "string", default: "1000000" }, seconds: { type: "string", default: "10" } },
});
const wanted = Number(values.lines);
if (!(wanted > 0)) throw new RangeError(`Cannot use --lines ${values.lines}: it must be a number above 0`);

/** Logs by their agents' folders, and how many of each three sessions an agent has. */
const KINDS = [
  {
    folder: ".claude/projects/p",
    model: "claude-sonnet-4-5",
    make: (one: MadeSession) => claudeCodeLines(one),
  },
  { folder: ".codex/sessions/2026", model: "gpt-5.5", make: codexLines },
  { folder: ".pi/agent/sessions/p", model: "claude-sonnet-4-5", make: piLines },
];

const home = await Deno.makeTempDir({ prefix: "tare-history-" });
try {
  const recordings = generateWorkload();
  let [lines, bytes, sessions] = [0, 0, 0];
  while (lines < wanted) {
    const kind = KINDS[sessions % KINDS.length]!;
    const recording = recordings[sessions % recordings.length]!;
    const id = `session-${sessions}`;
    const startMs = Date.UTC(2026, 0, 1) + sessions * 3_600_000;
    const made = kind.make({ id, recording, startMs, cwd: `/work/p${sessions % 9}`, model: kind.model });
    const text = made.slice(0, wanted - lines).join("\n") + "\n";
    await Deno.mkdir(`${home}/${kind.folder}`, { recursive: true });
    await Deno.writeTextFile(`${home}/${kind.folder}/${id}.jsonl`, text);
    lines += Math.min(made.length, wanted - lines);
    bytes += text.length;
    sessions++;
  }
  console.log(
    `${lines.toLocaleString("en")} lines in ${sessions} sessions, ${(bytes / 1e9).toFixed(2)} GB. Reading …`,
  );
  const startMs = performance.now();
  const { code, stderr } = await new Deno.Command("/usr/bin/env", {
    args: [
      "time",
      "-v",
      Deno.execPath(),
      ...await flags(),
      "--home",
      home,
      "--seconds",
      values.seconds,
      "--json",
    ],
    stdout: "null",
    stderr: "piped",
  }).output();
  const told = new TextDecoder().decode(stderr);
  if (code !== 0) throw new Error(told);
  const peak = Number(/Maximum resident set size \(kbytes\): (\d+)/.exec(told)?.[1]) / 1024;
  console.log(
    `${((performance.now() - startMs) / 1000).toFixed(1)} s, at most ${peak.toFixed(0)} MB of memory`,
  );
} finally {
  await Deno.remove(home, { recursive: true });
}

/** How the task starts the command. */
async function flags(): Promise<string[]> {
  const { tasks } = JSON.parse(await Deno.readTextFile(new URL("../deno.json", import.meta.url)));
  return tasks.history.command.split(" ").slice(1);
}
