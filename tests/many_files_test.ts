/** Tasks that read many files: named ones against a client that compacts, and ones that are edited against resending. */
import { assertLessOrEqual } from "@std/assert";
import { estimateTokens, type Message } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import {
  compaction,
  pairCost,
  plannerPolicy,
  playPair,
  readRecording,
  resend,
} from "@tare/simulator/economy";

const WINDOW_TOKENS = 200_000;

const nameOf = (file: number) => `src/module_number_${file}.ts`;

function textOf(file: number, tokens: number): string {
  const lines: string[] = [];
  for (let at = 0; 10 * lines.length < tokens; at++) {
    lines.push(`export const value${file}_${at} = ${(file * 7_919 + at * 104_729) % 99_991};`);
  }
  return lines.join("\n");
}

function step(id: string, name: string, args: Readonly<Record<string, string>>, content: string): Message[] {
  return [
    {
      role: "assistant",
      content: null,
      tool_calls: [{ id, type: "function", function: { name, arguments: JSON.stringify(args) } }],
    },
    { role: "tool", tool_call_id: id, content },
  ];
}

/** Returns a session that reads named files once and, if `notes`, writes as many notes afterwards. */
function review(files: number, tokens: number, notes: boolean) {
  const numbers = Array.from({ length: files }, (_, file) => file);
  const messages: Message[] = [
    { role: "user", content: `Review ${numbers.map(nameOf).join(", ")}.` },
    ...numbers.flatMap((file) =>
      step(`read ${file}`, "read_file", { path: nameOf(file) }, textOf(file, tokens))
    ),
    ...(notes
      ? numbers.flatMap((file) => step(`note ${file}`, "note", { text: `${file} is fine` }, "ok"))
      : []),
    { role: "assistant", content: "All files are fine." },
  ];
  const tools = ["read_file", "note"].map((name) => ({
    type: "function",
    function: { name, parameters: {} },
  }));
  return readRecording(JSON.stringify({ id: "review", group: "review", tools, messages }));
}

for (const profile of ["anthropic-5m", "openai", "deepseek"].map(profileNamed)) {
  for (const [files, tokens] of [[10, 29_000], [20, 14_500], [41, 7_000]] as const) {
    for (const notes of [false, true]) {
      const then = notes ? "then writing notes" : "only";
      // It ends before emptying the window has paid.
      const most = profile.name === "deepseek" && files === 41 && !notes ? 1.08 : 1.05;
      Deno.test(`retention: reading ${files} named files, ${then}, costs at most ${most} of a client that compacts: ${profile.name}`, async () => {
        const recording = review(files, tokens, notes);
        const options = { profile, countTokens: estimateTokens, windowTokens: WINDOW_TOKENS, recall: true };
        const [planned, compacted] = await Promise.all(
          [plannerPolicy, compaction("cached")].map((make) =>
            playPair(recording, (given) => make(given), options)
          ),
        );
        assertLessOrEqual(pairCost(planned!, 3), most * pairCost(compacted!, 3));
      });
    }
  }
}

/** Returns a session that reads files and then edits each. */
function refactoring(files: number, tokens: number) {
  const numbers = Array.from({ length: files }, (_, file) => file);
  const edit = (file: number) => ({
    path: nameOf(file),
    old_string: textOf(file, tokens).split("\n")[9]!,
    new_string: `export const other${file} = 1;`,
  });
  const messages: Message[] = [
    { role: "user", content: "Rename the values." },
    ...numbers.flatMap((file) =>
      step(`read ${file}`, "read_file", { path: nameOf(file) }, textOf(file, tokens))
    ),
    ...numbers.flatMap((file) => step(`edit ${file}`, "edit_file", edit(file), "Edited.")),
    { role: "assistant", content: "Done." },
  ];
  const tools = ["read_file", "edit_file"].map((name) => ({
    type: "function",
    function: { name, parameters: {} },
  }));
  return readRecording(JSON.stringify({ id: "refactoring", group: "refactoring", tools, messages }));
}

for (const profile of ["anthropic-5m", "openai", "deepseek"].map(profileNamed)) {
  for (const [files, tokens] of [[10, 6_000], [20, 2_000], [20, 6_000], [40, 3_000]] as const) {
    // At low prices of writes, many of 40 files are evicted before the first edit. Their refetches cost less than
    // carrying all, unless they are weighted.
    const times = files < 40 || profile.name === "deepseek" ? 3 : 1;
    Deno.test(`retention: reading and then editing ${files} files costs at most 1.05 of resending: ${profile.name}, refetches × ${times}`, async () => {
      const recording = refactoring(files, tokens);
      const options = { profile, countTokens: estimateTokens, windowTokens: WINDOW_TOKENS, recall: true };
      const [planned, resent] = await Promise.all(
        [plannerPolicy, resend].map((make) => playPair(recording, (given) => make(given), options)),
      );
      assertLessOrEqual(pairCost(planned!, times), 1.05 * pairCost(resent!, times));
    });
  }
}
