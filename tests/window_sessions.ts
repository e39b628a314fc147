/**
 * Generates sessions in every script on a provider with another tokenizer, which refuses prompts over its
 * window. Contains no tests.
 *
 * @module
 */
import type { CountTokens, Message, ToolDefinition } from "@tare/messages";
import { type Pin, plannerSession, profileNamed, type PromptSession, PromptTooLong } from "@tare/planner";
import { makePin, pinsAfter } from "@tare/planner/internal";
import { memoryArchive, RECALL_TOOL } from "@tare/prune";

/** Letters or words of each script, and tokens per UTF-16 code unit. */
const SCRIPTS: Readonly<
  Record<string, { readonly words: readonly string[]; readonly rates: readonly [number, number] }>
> = {
  latin: {
    words: "the reader waits until every line has been found again and then returns".split(" "),
    rates: [0.18, 0.35],
  },
  chinese: { words: [..."函数读取每一行并返回找到的内容然后写入文件检查错误"], rates: [0.6, 1.6] },
  japanese: { words: [..."ファイルを読み込んでから試験を走らせてくださいこの行"], rates: [0.6, 1.5] },
  korean: { words: "함수는 각 줄을 읽고 찾은 내용을 반환합니다 파일에 쓰고".split(" "), rates: [0.5, 1.8] },
  cyrillic: {
    words: "функция читает каждую строку и возвращает найденное потом пишет".split(" "),
    rates: [0.25, 0.6],
  },
  arabic: { words: "تقرأ الدالة كل سطر وتعيد ما تم العثور عليه ثم تكتب".split(" "), rates: [0.28, 0.9] },
  hebrew: { words: "הפונקציה קוראת כל שורה ומחזירה את מה שנמצא ואז כותבת".split(" "), rates: [0.35, 1.1] },
  greek: {
    words: "η συνάρτηση διαβάζει κάθε γραμμή και επιστρέφει ό,τι βρέθηκε".split(" "),
    rates: [0.3, 1],
  },
  hindi: { words: "फ़ंक्शन हर पंक्ति पढ़ता है और जो मिला उसे लौटाता है".split(" "), rates: [0.3, 1.5] },
  thai: { words: ["ฟังก์ชัน", "อ่าน", "แต่ละ", "บรรทัด", "และ", "ส่งคืน", "สิ่งที่พบ"], rates: [0.35, 1.5] },
  emoji: { words: ["😀", "🚀", "✨", "🔥", "🎉", "🙈", "🍕", "👩‍💻"], rates: [0.7, 1.8] },
  base64: { words: [], rates: [0.6, 0.95] },
};

export const SCRIPT_NAMES: readonly string[] = Object.keys(SCRIPTS);

/** Patterns of the scripts: a character's first match counts. */
const TESTS: readonly (readonly [RegExp, string])[] = [
  [/[\u3040-\u30ff]/, "japanese"],
  [/[\u3400-\u9fff\u3000-\u303f]/, "chinese"],
  [/[\uac00-\ud7af]/, "korean"],
  [/[\u0400-\u052f]/, "cyrillic"],
  [/[\u0600-\u06ff]/, "arabic"],
  [/[\u0590-\u05ff]/, "hebrew"],
  [/[\u0370-\u03ff\u1f00-\u1fff]/, "greek"],
  [/[\u0900-\u097f]/, "hindi"],
  [/[\u0e00-\u0e7f]/, "thai"],
  [/[\u0080-\uffff]/, "emoji"],
];

/** Returns a seeded random generator from 0 to 1 (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function provider(random: () => number): CountTokens {
  const rates = new Map(
    Object.entries(SCRIPTS).map(([name, { rates: [low, high] }]) => [name, low + (high - low) * random()]),
  );
  const codes = new Map<number, number>();
  const rateOf = (code: number, char: string) => {
    let rate = codes.get(code);
    if (rate === undefined) {
      const found = TESTS.find(([test]) => test.test(char))?.[1];
      const isMark = !found && /[^A-Za-z\s]/.test(char);
      rate = isMark ? 2 * rates.get("latin")! : rates.get(found ?? "latin")!;
      codes.set(code, rate);
    }
    return rate;
  };
  const dense = rates.get("base64")!;
  const counted = new Map<string, number>();
  return (text) => {
    const known = counted.get(text);
    if (known !== undefined) return known;
    let tokens = 0;
    for (const piece of text.split(/([A-Za-z0-9+/=]{40,})/)) {
      if (/^[A-Za-z0-9+/=]{40,}$/.test(piece)) tokens += dense * piece.length;
      else for (let at = 0; at < piece.length; at++) tokens += rateOf(piece.charCodeAt(at), piece[at]!);
    }
    counted.set(text, Math.ceil(tokens));
    return Math.ceil(tokens);
  };
}

const BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

function textOf(script: string, length: number, random: () => number): string {
  const { words } = SCRIPTS[script]!;
  const space = script === "chinese" || script === "japanese" || script === "thai" ? "" : " ";
  const pieces: string[] = [];
  for (let units = 0; units < length;) {
    const piece = script === "base64"
      ? Array.from({ length: 76 }, () => BASE64[Math.floor(64 * random())]).join("")
      : words[Math.floor(words.length * random())]! + (random() < 0.06 ? "\n" : space);
    pieces.push(piece);
    units += piece.length;
  }
  return pieces.join(script === "base64" ? "\n" : "").slice(0, length).toWellFormed();
}

export type Counter = "exact" | "estimating" | "undercounting";

export interface PlayedWindow {
  readonly calls: number;
  /** Requests over the window although a prompt's usage had been reported. */
  readonly over: readonly { readonly call: number; readonly tokens: number; readonly windowTokens: number }[];
  /** First requests over the window, which the provider refused. */
  readonly refused: number;
  /** Requests over the window that were sent after a refusal. */
  readonly refusedTwice: number;
  /** Share of the window of the texts that ended the session; `undefined` if none did. */
  readonly tooLong: number | undefined;
  /** Mean share of the window that prompts took. */
  readonly use: number;
}

const TOOLS: readonly ToolDefinition[] = ["read", "search", "shell", "edit"].map((name) => ({
  type: "function",
  function: {
    name,
    description: `Purpose of ${name}, in some words, and its result.`,
    parameters: { type: "object", properties: { path: { type: "string", description: "A path." } } },
  },
}));

const PROFILES = ["anthropic-5m", "openai", "deepseek", "none"];

/** Plays the session of a seed, and reports the requests that its window didn't hold. */
export async function playWindow(
  seed: number,
  { counter: name, exact }: { readonly counter: Counter; readonly exact: CountTokens },
): Promise<PlayedWindow> {
  const random = seeded(seed);
  const pick = <T>(from: readonly T[]): T => from[Math.floor(from.length * random())]!;
  const isReal = name === "exact" && random() < 0.5;
  const theirs = isReal ? exact : provider(random);
  const countTokens = COUNTERS[name](exact);
  const windowTokens = pick([8_000, 16_000, 32_000, 64_000, 128_000, 200_000]);
  const scripts = ["latin", ...Array.from({ length: Math.floor(3 * random()) }, () => pick(SCRIPT_NAMES))];
  const perUnit = 0.3;
  const unseen = random() < 0.3 ? 3_000 * random() * windowTokens / 200_000 : 0;
  const largest = windowTokens * pick([0.05, 0.1, 0.2, 0.4]) / perUnit;
  const text = (most: number) => textOf(pick(scripts), Math.ceil(most * random() ** 2) + 20, random);
  const tokensOf = (
    { messages, tools }: { messages: readonly Message[]; tools: readonly ToolDefinition[] },
  ) =>
    Math.round(unseen) +
    tools.reduce((sum, tool) => sum + theirs(JSON.stringify(tool)), 0) +
    messages.reduce((sum, message) => sum + 3 + tokensIn(message, theirs), 0);

  const options = {
    profile: profileNamed(pick(PROFILES)),
    archive: memoryArchive(),
    countTokens,
    windowTokens,
    ...(random() < 0.5 && {
      summarize: () =>
        Promise.resolve({
          text: "A summary. ".repeat(40),
          usage: { promptTokens: 9, cachedTokens: 0, outputTokens: 9 },
        }),
    }),
  };
  const tools = [...TOOLS, ...(random() < 0.8 ? [RECALL_TOOL] : [])];
  let session: PromptSession = plannerSession(options);
  let pins: readonly Pin[] = [];
  const files = Array.from({ length: 12 }, (_, at) => `src/part${at}/file${at}.ts`);
  const history: Message[] = [
    { role: "system", content: textOf("latin", Math.min(4_000, 0.05 * windowTokens / perUnit), random) },
    {
      role: "user",
      content: `Look at ${files.slice(0, Math.floor(12 * random())).join(", ")}. ${text(largest / 4)}`,
    },
  ];
  if (random() < 0.2) {
    // Beginning of a conversation that was held elsewhere.
    for (let step = 0; step < 12; step++) {
      answer(history, { random, pick, files, text: () => text(largest), ask: () => text(largest / 3) });
    }
  }
  const over: { call: number; tokens: number; windowTokens: number }[] = [];
  let [refused, refusedTwice, used] = [0, 0, 0];
  const calls = 10 + Math.floor((windowTokens > 64_000 ? 50 : 30) * random());
  let nowMs = 0;
  for (let call = 0; call < calls; call++) {
    nowMs += pick([1_000, 1_000, 20_000, 400_000]);
    if (random() < 0.1) {
      session = plannerSession({ ...options, state: JSON.parse(JSON.stringify(session.state)) });
    }
    if (random() < 0.15) {
      try {
        const place = Math.floor(history.length * random());
        pins = pinsAfter(pins, {
          set: makePin(history, { place, wish: random() < 0.7 ? "retain" : "evict" }, { countTokens }),
        });
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
      }
    }
    const view = async () => await session.view({ messages: [...history], tools }, { nowMs, pins });
    try {
      let sent = await view();
      let tokens = tokensOf({ messages: [...sent.messages], tools: [...sent.tools] });
      if (tokens > windowTokens && call === 0) {
        refused++;
        session.rejected(windowTokens, random() < 0.5 ? { promptTokens: tokens } : {});
        sent = await view();
        tokens = tokensOf({ messages: [...sent.messages], tools: [...sent.tools] });
        if (tokens > windowTokens) refusedTwice++;
      } else if (tokens > windowTokens) over.push({ call, tokens, windowTokens });
      const ended = sent.endedPins ?? [];
      pins = pins.filter(({ place }) => !ended.some((one) => one.place === place));
      used += tokens / windowTokens;
      session.sent({ promptTokens: tokens, cachedTokens: Math.floor(tokens / 2), outputTokens: 50 }, sent);
    } catch (error) {
      if (!(error instanceof PromptTooLong)) throw error;
      return {
        calls: call,
        over,
        refused,
        refusedTwice,
        tooLong: tokensLeft(error, windowTokens),
        use: used / Math.max(1, call),
      };
    }
    answer(history, { random, pick, files, text: () => text(largest), ask: () => text(largest / 3) });
  }
  return { calls, over, refused, refusedTwice, tooLong: undefined, use: used / calls };
}

function tokensLeft({ promptTokens }: PromptTooLong, windowTokens: number): number {
  return promptTokens / windowTokens;
}

const COUNTERS: Readonly<Record<Counter, (exact: CountTokens) => CountTokens>> = {
  exact: (exact) => exact,
  estimating: () => (text) => Math.ceil(text.length / 4),
  undercounting: (exact) => (text) => Math.ceil(exact(text) / 4),
};

function tokensIn(message: Message, count: CountTokens): number {
  const { content } = message;
  let tokens = typeof content === "string" ? count(content) : 0;
  if (message.role !== "assistant") return tokens;
  for (const call of message.tool_calls ?? []) {
    if (call.type === "function") tokens += count(call.function.name) + count(call.function.arguments);
  }
  return tokens;
}

/** Appends the model's reply with its parallel calls and results, or an answer and the next question. */
function answer(
  history: Message[],
  { random, pick, files, text, ask }: {
    readonly random: () => number;
    readonly pick: <T>(from: readonly T[]) => T;
    readonly files: readonly string[];
    readonly text: () => string;
    readonly ask: () => string;
  },
): void {
  if (random() < 0.2) {
    history.push({ role: "assistant", content: ask() }, { role: "user", content: ask() });
    return;
  }
  const number = history.length;
  const calls = Array.from({ length: 1 + Math.floor(4 * random() ** 3) }, (_, at) => ({
    id: `c${number}-${at}`,
    type: "function" as const,
    function: { name: pick(["read", "search", "shell"]), arguments: JSON.stringify({ path: pick(files) }) },
  }));
  history.push({ role: "assistant", content: random() < 0.5 ? null : "I look.", tool_calls: calls });
  for (const { id } of calls) {
    const isError = random() < 0.1;
    history.push({ role: "tool", tool_call_id: id, content: text(), ...(isError && { failed: true }) });
  }
}
