/**
 * Counts the same texts with our token counter and with five others from npm: how many megabytes a second each counts
 * of mixed text, and how long it takes for a million equal letters, which is the worst case of a naive merge. Each
 * measurement is a process of its own and has a time limit, since some would take hours.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- It prints a table.
import { formatTable } from "../../format_table.ts";

/** Longest time for one measurement, in seconds. */
const LIMIT_SECONDS = 20;

/** Rounds over the mixed text, fewer if they take long; the fastest counts. */
const ROUNDS = 9;

/** Makes a counter; each as its documentation says, so that special tokens are ordinary text where that can be said. */
const COUNTERS: Readonly<Record<string, () => Promise<(text: string) => number>>> = {
  "@tare/messages": async () => (await (await import("@tare/tiktoken")).loadTokenizer()).count,
  "ai-tokenizer": async () => {
    const { Tokenizer } = await import("ai-tokenizer");
    const tokenizer = new Tokenizer(await import("ai-tokenizer/encoding/o200k_base"));
    return (text) => tokenizer.encode(text, [], []).length;
  },
  "gpt-tokenizer": async () => {
    const { countTokens } = await import("gpt-tokenizer/encoding/o200k_base");
    const options = { disallowedSpecial: new Set<string>() };
    return (text) => countTokens(text, options);
  },
  "tiktoken (wasm)": async () => {
    const encoding = (await import("tiktoken")).get_encoding("o200k_base");
    return (text) => encoding.encode(text, [], []).length;
  },
  "js-tiktoken": async () => {
    const encoding = (await import("js-tiktoken")).getEncoding("o200k_base");
    return (text) => encoding.encode(text, [], []).length;
  },
  // Another encoding, that of Claude's first models: its counts are others.
  "@anthropic-ai/tokenizer": async () => (await import("@anthropic-ai/tokenizer")).countTokens,
};

const MEGABYTE = 1_000_000;

/** A megabyte of this repository's prose and code, and of what else models read: other scripts, JSON, base64. */
async function mixedText(): Promise<string> {
  const pieces: string[] = [];
  for (const folder of ["docs", "packages/planner", "packages/wire", "packages/messages", "packages/prune"]) {
    const url = new URL(`../../../${folder}/`, import.meta.url);
    for (const name of [...Deno.readDirSync(url)].map((entry) => entry.name).sort()) {
      if (/\.(md|ts|json)$/.test(name)) pieces.push(await Deno.readTextFile(new URL(name, url)));
    }
  }
  const others =
    "Größe, naïve café. Съешь же ещё этих мягких булок. 今日は世界、また明日。 안녕하세요 😀🏳️‍🌈\n" +
    `${JSON.stringify({ path: "src/a.ts", range: [1, 2000], ok: true })}\n${btoa("mixed text ".repeat(9))}\n`;
  const text = pieces.flatMap((piece) => [piece, others.repeat(4)]).join("\n");
  return text.repeat(Math.ceil(MEGABYTE / text.length)).slice(0, MEGABYTE);
}

/** Measures one counter, and prints the seconds of its fastest round and how many tokens it counted. */
async function measure(name: string, text: string, rounds: number): Promise<void> {
  const count = await COUNTERS[name]!();
  let [seconds, tokens, spent] = [Infinity, 0, 0];
  for (let round = 0; round < rounds && spent < LIMIT_SECONDS / 4; round++) {
    const startedAt = performance.now();
    tokens = count(text);
    const took = (performance.now() - startedAt) / 1000;
    seconds = Math.min(seconds, took);
    spent += took;
  }
  console.log(JSON.stringify({ seconds, tokens }));
}

/** Measures in a process of its own; says so if that wasn't done in time, or failed. */
async function measureApart(
  name: string,
  what: "mixed" | "worst",
): Promise<{ readonly seconds: number; readonly tokens: number } | string> {
  const config = `${import.meta.dirname}/../deno.json`;
  const process = new Deno.Command(Deno.execPath(), {
    args: ["run", "--frozen", "--allow-read", "--config", config, import.meta.url, what, name],
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const timer = setTimeout(() => process.kill("SIGKILL"), LIMIT_SECONDS * 1000);
  const { stdout, stderr, signal, code } = await process.output();
  clearTimeout(timer);
  if (signal === "SIGKILL") return `not done in ${LIMIT_SECONDS} s`;
  if (code !== 0) return /\b\w*Error: .*/.exec(new TextDecoder().decode(stderr))?.[0] ?? "it failed";
  return JSON.parse(new TextDecoder().decode(stdout));
}

const [what, asked = ""] = Deno.args;
if (what === "mixed") {
  await measure(asked, await mixedText(), ROUNDS);
} else if (what === "worst") {
  await measure(asked, "a".repeat(MEGABYTE), 1);
} else {
  const megabytes = new TextEncoder().encode(await mixedText()).length / MEGABYTE;
  console.log(
    `Mixed text of ${
      megabytes.toFixed(2)
    } MB, the fastest of up to ${ROUNDS} rounds; 1 MB of one letter, once.\n`,
  );
  const rows = [["", "", "MB/s", "tokens", "one letter"]];
  for (const name of Object.keys(COUNTERS)) {
    const mixed = await measureApart(name, "mixed");
    const worst = await measureApart(name, "worst");
    rows.push([
      ...[name, ""],
      ...(typeof mixed === "string"
        ? [mixed, ""]
        : [(megabytes / mixed.seconds).toFixed(1), String(mixed.tokens)]),
      typeof worst === "string" ? worst : `${worst.seconds.toFixed(2)} s`,
    ]);
  }
  console.log(formatTable(rows));
}
