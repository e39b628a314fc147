import type { CountTokens, Message, ToolDefinition } from "@tare/messages";
import { countMessageTokens, countToolTokens, describeCall } from "@tare/messages/internal";

/**
 * The last reported prompt of a session and the provider's estimated tokenizer factors. Plain data. Lists by
 * kind contain the observed kinds, in the order of `kinds`.
 */
export interface SizeRecord {
  readonly model?: string | undefined;
  readonly tokens: number;
  readonly kinds: readonly number[];
  readonly visible: readonly number[];
  /** Factors from local tokens to the provider's. */
  readonly scales: readonly number[];
  /** Covariance matrix of the factors, row by row. */
  readonly doubts: readonly number[];
  /** Relative deviation of texts of one kind from the expected count. */
  readonly noise: number;
}

export interface PromptSize {
  readonly tokens: number;
  readonly atLeast: number;
  readonly atMost: number;
}

/** Distance of the bounds from the estimate, in standard deviations. */
const DEVIATIONS = 3;

/** The same for an unseen kind, within the range of known tokenizers. */
const FIRST_DEVIATIONS = 2.5;

/** Standard deviation of tokens that a provider adds invisibly to a prompt. */
const UNSEEN_TOKENS = 4_000;

/** The same for a message or two. */
const FRAME_TOKENS = 30;

/** Initial and least deviation within a kind, and the weight of earlier observations. */
const FIRST_NOISE = 0.2;
const LEAST_NOISE = 0.03;
const NOISE_MEMORY = 0.8;

/** Most deviation of a text's rate from the sample of its kind, as a factor. */
const SLACK = 1.3;

/** Share of a prompt that may have been replaced by other text of the same kind. */
const TURNOVER_SHARE = 0.05;

const DRIFT = 0.01;

/** Range of the usual rates within which a counter is a tokenizer and not an estimate by length. */
const LIKELY = { least: 0.6, most: 2.5 };

/**
 * Returns the length of a prompt: the last reported length plus the difference since. A Kalman filter
 * estimates the factor of each kind of text from the session's calls; unseen kinds have the range of known
 * tokenizers.
 */
export function sizePrompt(
  record: SizeRecord | undefined,
  kinds: ByKind,
  countTokens: CountTokens,
): PromptSize {
  const filter = new Filter(record, countTokens);
  const net = record ? minus(kinds, visibleOf(record)) : kinds;
  const start = record?.tokens ?? 0;
  const tokens = Math.max(0, start + filter.expected(net));
  const { least, most } = filter.bounds;
  const [added, left] = [net.map((tokens) => Math.max(0, tokens)), net.map((tokens) => Math.max(0, -tokens))];
  const low = start + dot(added, least) - dot(left, most);
  const high = start + dot(added, most) - dot(left, least);
  const margin = DEVIATIONS * Math.sqrt(filter.variance(net)) +
    2 * filter.noise * (filter.expected(plus(added, left)) + TURNOVER_SHARE * tokens);
  return {
    tokens,
    atLeast: Math.max(0, low, tokens - margin),
    atMost: Math.max(tokens, Math.min(high, tokens + margin)),
  };
}

export function observeSize(
  { model, tokens, kinds: visible }: {
    readonly model?: string | undefined;
    readonly tokens: number;
    readonly kinds: ByKind;
  },
  { record, countTokens }: {
    readonly record: SizeRecord | undefined;
    readonly countTokens: CountTokens;
  },
): SizeRecord {
  const filter = new Filter(record, countTokens);
  const net = record ? minus(visible, visibleOf(record)) : visible;
  filter.learn(tokens - (record?.tokens ?? 0), net, record ? FRAME_TOKENS : UNSEEN_TOKENS);
  const kinds = [...TEXT_KINDS.keys()].filter((kind) => visible[kind] !== 0 || record?.kinds.includes(kind));
  return {
    ...(model !== undefined && { model }),
    tokens,
    kinds,
    visible: kinds.map((kind) => visible[kind]!),
    scales: kinds.map((kind) => rounded(filter.scales[kind]!)),
    doubts: kinds.flatMap((row) => kinds.map((kind) => rounded(filter.doubts[row]![kind]!))),
    noise: rounded(filter.noise),
  };
}

/** Returns the expected tokens of a text, as the provider counts, by the factors of the session's calls. */
export function expectedTokens(
  record: SizeRecord | undefined,
  kinds: ByKind,
  countTokens: CountTokens,
): number {
  return new Filter(record, countTokens).expected(kinds);
}

function visibleOf({ kinds, visible }: SizeRecord): ByKind {
  const all = [...NO_TEXT];
  for (const [at, kind] of kinds.entries()) all[kind] = visible[at]!;
  return all;
}

/** Returns the most tokens that any known tokenizer would count for a prompt. */
export function longestSize(visible: ByKind, countTokens: CountTokens): number {
  return dot(visible, new Filter(undefined, countTokens).bounds.most);
}

class Filter {
  readonly scales: number[];
  readonly doubts: number[][];
  readonly bounds: { readonly least: ByKind; readonly most: ByKind };
  noise: number;

  constructor(record: SizeRecord | undefined, countTokens: CountTokens) {
    const rates = kindRates(countTokens);
    const isLikely = [WORDS, DENSE, HAN].every((kind) => {
      const share = rates[kind]! / TEXT_KINDS[kind]!.usual;
      return LIKELY.least <= share && share <= LIKELY.most;
    });
    this.bounds = {
      least: TEXT_KINDS.map(({ least }, kind) => least / SLACK / rates[kind]!),
      most: TEXT_KINDS.map(({ most }, kind) => SLACK * most / rates[kind]!),
    };
    this.scales = TEXT_KINDS.map(({ usual }, kind) => isLikely ? 1 : usual / rates[kind]!);
    this.doubts = this.scales.map((scale, row) =>
      this.scales.map((_, kind) =>
        kind === row ? ((this.bounds.most[row]! - scale) / FIRST_DEVIATIONS) ** 2 : 0
      )
    );
    this.noise = record?.noise ?? FIRST_NOISE;
    const { kinds = [], scales = [], doubts = [] } = record ?? {};
    for (const [row, one] of kinds.entries()) {
      this.scales[one] = scales[row]!;
      for (const [column, other] of kinds.entries()) {
        this.doubts[one]![other] = doubts[row * kinds.length + column]!;
      }
    }
  }

  expected(tokens: ByKind): number {
    return dot(tokens, this.scales);
  }

  variance(tokens: ByKind): number {
    return Math.max(0, this.doubts.reduce((sum, row, kind) => sum + tokens[kind]! * dot(tokens, row), 0));
  }

  learn(grown: number, net: ByKind, frameTokens: number): void {
    const moved = this.expected(net.map(Math.abs));
    const spread = (this.noise * moved) ** 2 + frameTokens ** 2;
    const toward = this.doubts.map((row) => dot(net, row));
    const all = spread + dot(net, toward);
    const missed = grown - this.expected(net);
    for (const [row, its] of toward.entries()) {
      if (its === 0) continue;
      const { least, most } = this.bounds;
      const scale = this.scales[row]! + its * missed / all;
      this.scales[row] = Math.min(most[row]!, Math.max(least[row]!, scale));
      for (const [kind, other] of toward.entries()) this.doubts[row]![kind]! -= its * other / all;
    }
    // The deviation that remains after the update is noise within the kinds.
    const rest = Math.max(0, Math.abs(grown - this.expected(net)) - frameTokens);
    const share = moved > 0 ? rest / moved : 0;
    this.noise = Math.max(LEAST_NOISE, NOISE_MEMORY * this.noise, Math.min(1, share));
    for (const [kind, scale] of this.scales.entries()) {
      if (net[kind] !== 0) this.doubts[kind]![kind]! += (DRIFT * scale) ** 2;
    }
  }
}

function dot(one: ByKind, other: ByKind): number {
  let sum = 0;
  for (let kind = 0; kind < one.length; kind++) sum += one[kind]! * other[kind]!;
  return sum;
}

function rounded(value: number): number {
  return Number(value.toPrecision(5));
}

/** Kind of text with a similar tokenization. Rates are tokens per UTF-16 code unit. */
interface TextKind {
  /** Lowest, usual and highest rate of known tokenizers; the highest is at least that of p50k_base. */
  readonly least: number;
  readonly usual: number;
  readonly most: number;
  readonly sample: string;
}

/**
 * The kinds, in the order of every list by kind: words; digits and symbols; unbroken strings such as base64;
 * Latin letters beyond ASCII; Greek; Cyrillic; Hebrew; Arabic; Indic scripts; South-East Asian scripts; Kana;
 * Han; Hangul; emoji and others; and content that isn't text.
 */
const TEXT_KINDS: readonly TextKind[] = [
  {
    least: 0.12,
    usual: 0.23,
    most: 0.45,
    sample: "The handler reads each line and returns what was found when nobody waits for the rest of it",
  },
  { least: 0.2, usual: 0.5, most: 1, sample: '{"1":[20,3.5],"(4)":{"5":"-6"}};\n#7 != 81 && (9 > 10)?' },
  { least: 0.4, usual: 0.75, most: 1, sample: "mQ7xTz0pVb3Kd9RfLw2yHs8UjNc4GaEo6iXtBv1ZrWk5PqSg" },
  { least: 0.2, usual: 0.8, most: 1.4, sample: "äöüéèàçñøåłčšžãõ" },
  { least: 0.2, usual: 0.55, most: 1.4, sample: "Η συνάρτηση διαβάζει κάθε γραμμή και επιστρέφει" },
  { least: 0.15, usual: 0.35, most: 1.3, sample: "Функция читает каждую строку и возвращает найденное" },
  { least: 0.2, usual: 0.6, most: 1.4, sample: "הפונקציה קוראת כל שורה ומחזירה את מה שנמצא" },
  { least: 0.15, usual: 0.5, most: 1.2, sample: "تقرأ الدالة كل سطر وتعيد ما تم العثور عليه" },
  { least: 0.15, usual: 0.6, most: 2, sample: "फ़ंक्शन हर पंक्ति पढ़ता है और जो मिला उसे लौटाता है" },
  { least: 0.2, usual: 0.7, most: 2.2, sample: "ฟังก์ชันอ่านแต่ละบรรทัดและส่งคืนสิ่งที่พบ" },
  { least: 0.3, usual: 0.8, most: 1.8, sample: "このファイルをよみこんでからテストをはしらせてください" },
  { least: 0.35, usual: 1, most: 2.2, sample: "函数读取每一行并返回找到的内容然后写入文件" },
  { least: 0.3, usual: 0.9, most: 2.2, sample: "함수는 각 줄을 읽고 찾은 내용을 반환합니다" },
  { least: 0.3, usual: 1.2, most: 2.2, sample: "😀🚀✨🔥🎉→✓═│█🙈🍕" },
  { least: 0.1, usual: 1, most: 3, sample: "" },
];

const [WORDS, SYMBOLS, DENSE, LATIN, GREEK, CYRILLIC, HEBREW, ARABIC] = [0, 1, 2, 3, 4, 5, 6, 7] as const;
const [INDIC, ASIAN, KANA, HAN, HANGUL, OTHER, MEDIA] = [8, 9, 10, 11, 12, 13, 14] as const;

/** Numbers by kind of text; by default tokens counted locally. */
export type ByKind = readonly number[];

export const NO_TEXT: ByKind = TEXT_KINDS.map(() => 0);

export function messageKinds(message: Message, countTokens: CountTokens): ByKind {
  return remembered(message, countTokens, splitMessage);
}

function splitMessage(message: Message, countTokens: CountTokens): ByKind {
  return split(textsOf(message), {
    tokens: countMessageTokens(message, countTokens),
    rates: kindRates(countTokens),
    media: Array.isArray(message.content) ? mediaTokens(message, countTokens) : 0,
  });
}

export function toolKinds(tools: readonly ToolDefinition[], countTokens: CountTokens): ByKind {
  return tools.reduce<ByKind>((sum, tool) => plus(sum, remembered(tool, countTokens, splitTool)), NO_TEXT);
}

function splitTool(tool: ToolDefinition, countTokens: CountTokens): ByKind {
  return split([JSON.stringify(tool)], {
    tokens: countToolTokens(tool, countTokens),
    rates: kindRates(countTokens),
    media: 0,
  });
}

export function plus(one: ByKind, other: ByKind): ByKind {
  return one.map((tokens, kind) => tokens + other[kind]!);
}

function minus(one: ByKind, other: ByKind): ByKind {
  return one.map((tokens, kind) => tokens - other[kind]!);
}

/** Returns a counter's rate of each kind, in tokens per UTF-16 code unit. */
function kindRates(countTokens: CountTokens): ByKind {
  const known = rates.get(countTokens);
  if (known) return known;
  const found = TEXT_KINDS.map(({ sample, usual }) =>
    sample === "" ? usual : Math.max(LEAST_RATE, countTokens(sample) / sample.length)
  );
  rates.set(countTokens, found);
  return found;
}

const LEAST_RATE = 0.01;

const rates = new WeakMap<CountTokens, ByKind>();
const counts = new WeakMap<CountTokens, WeakMap<object, ByKind>>();

function remembered<T extends object>(
  subject: T,
  countTokens: CountTokens,
  count: (subject: T, countTokens: CountTokens) => ByKind,
): ByKind {
  let known = counts.get(countTokens);
  if (!known) counts.set(countTokens, known = new WeakMap());
  let kinds = known.get(subject);
  if (!kinds) known.set(subject, kinds = count(subject, countTokens));
  return kinds;
}

function split(
  texts: Iterable<string>,
  { tokens, rates, media }: { readonly tokens: number; readonly rates: ByKind; readonly media: number },
): ByKind {
  const kinds = TEXT_KINDS.map(() => 0);
  for (const text of texts) addUnits(text, kinds);
  let all = 0;
  let main = 0;
  for (let kind = 0; kind < kinds.length; kind++) {
    const weight = kinds[kind]! *= rates[kind]!;
    all += weight;
    if (weight > kinds[main]!) main = kind;
  }
  const rest = tokens - media;
  let left = rest;
  for (let kind = 0; kind < kinds.length; kind++) {
    // Whole numbers, so that totals don't depend on the order.
    left -= kinds[kind] = all > 0 ? Math.floor(rest * kinds[kind]! / all) : 0;
  }
  kinds[main]! += left;
  kinds[MEDIA] = media;
  return kinds;
}

/** Returns the tokens of a message that aren't text: media and sealed reasoning. */
function mediaTokens(message: Message, countTokens: CountTokens): number {
  const sealed = "carried" in message ? message.carried?.tokens ?? 0 : 0;
  if (!Array.isArray(message.content)) return sealed;
  const media = message.content.filter(({ type }) => type !== "text" && type !== "refusal");
  const alone = (content: typeof media) =>
    countMessageTokens({ role: "user", content } as Message, countTokens);
  return sealed + alone(media) - alone([]);
}

function* textsOf(message: Message): Generator<string, void> {
  const { content } = message;
  if (typeof content === "string") yield content;
  else {
    for (const part of content ?? []) {
      if (part.type === "text") yield part.text;
      else if (part.type === "refusal") yield part.refusal;
    }
  }
  if ("findsTools" in message) { for (const tool of message.findsTools ?? []) yield JSON.stringify(tool); }
  if (message.role !== "assistant") return;
  if (message.reasoning_content && message.carried?.tokens === undefined) yield message.reasoning_content;
  if (message.refusal) yield message.refusal;
  for (const call of message.tool_calls ?? []) {
    const { name, arguments: input } = describeCall(call);
    yield name;
    yield input;
  }
}

const DENSE_LENGTH = 24;

/** Least share of digits, or of changes of case, that distinguishes base64 from paths and names. */
const DENSE_SHARE = 1 / 12;

/**
 * Adds a text's UTF-16 code units by kind. Works on numbers without allocation because every message passes
 * through it.
 */
function addUnits(text: string, units: number[]): void {
  let words = 0;
  let symbols = 0;
  let dense = 0;
  const { length } = text;
  for (let at = 0; at < length;) {
    const unit = text.charCodeAt(at);
    let ascii = unit < 128 ? ASCII[unit]! : 0;
    if (ascii <= MARK) {
      if (ascii === SPACE) words++;
      else if (ascii === MARK) symbols++;
      else units[kindOf(unit)]!++;
      at++;
      continue;
    }
    const start = at;
    let letters = 0;
    let digits = 0;
    let changes = 0;
    let before = 0;
    do {
      if (ascii <= CAPITAL) {
        letters++;
        if (before !== 0 && before !== ascii) changes++;
        before = ascii;
      } else if (ascii === DIGIT) digits++;
      at++;
      const next = at < length ? text.charCodeAt(at) : 128;
      ascii = next < 128 ? ASCII[next]! : 0;
    } while (ascii > MARK);
    const run = at - start;
    if (run >= DENSE_LENGTH && Math.max(digits, changes) >= DENSE_SHARE * run) dense += run;
    else {
      words += letters;
      symbols += run - letters;
    }
  }
  units[WORDS]! += words;
  units[SYMBOLS]! += symbols;
  units[DENSE]! += dense;
}

const [SPACE, MARK, SMALL, CAPITAL, DIGIT, JOINT] = [1, 2, 3, 4, 5, 6] as const;

const ASCII: Uint8Array = Uint8Array.from({ length: 128 }, (_, code) => {
  const char = String.fromCharCode(code);
  if (/\s/.test(char)) return SPACE;
  if (/[a-z]/.test(char)) return SMALL;
  if (/[A-Z]/.test(char)) return CAPITAL;
  if (/\d/.test(char)) return DIGIT;
  return /[+/=_-]/.test(char) ? JOINT : MARK;
});

const SCRIPTS: readonly (readonly [end: number, kind: number])[] = [
  [0x250, LATIN],
  [0x370, OTHER],
  [0x400, GREEK],
  [0x530, CYRILLIC],
  [0x590, OTHER],
  [0x600, HEBREW],
  [0x900, ARABIC],
  [0xe00, INDIC],
  [0x1100, ASIAN],
  [0x1200, HANGUL],
  [0x1780, OTHER],
  [0x1800, ASIAN],
  [0x1e00, OTHER],
  [0x1f00, LATIN],
  [0x2000, GREEK],
  [0x2e80, OTHER],
  [0x3040, HAN],
  [0x3130, KANA],
  [0x3190, HANGUL],
  [0x31f0, HAN],
  [0x3200, KANA],
  [0xa000, HAN],
  [0xac00, OTHER],
  [0xd7b0, HANGUL],
  [0xf900, OTHER],
  [0xfb00, HAN],
  [0xfb1d, LATIN],
  [0xfb50, HEBREW],
  [0xfe00, ARABIC],
  [0xfe70, OTHER],
  [0xff00, ARABIC],
  [0xff65, HAN],
  [0xffa0, KANA],
  [0x10000, OTHER],
];

function kindOf(unit: number): number {
  for (const [end, kind] of SCRIPTS) if (unit < end) return kind;
  return OTHER;
}

/**
 * Totals over a session's calls, of prompts as counted locally (`ours`) and as reported (`theirs`). Plain
 * data.
 */
export interface TokenRecord {
  readonly calls: number;
  readonly ours: number;
  readonly theirs: number;
  readonly oursSquared: number;
  readonly product: number;
}

export const NO_TOKENS: TokenRecord = { calls: 0, ours: 0, theirs: 0, oursSquared: 0, product: 0 };

export interface TokenScale {
  /** The provider's tokens per local token. */
  readonly perToken: number;
  /**
   * Tokens that the provider counts but that aren't visible locally, such as a prefix that the client adds.
   */
  readonly unseen: number;
}

/** Spread of prompt lengths, in tokens, that distinguishes another tokenizer from an invisible prefix. */
const PRIOR_SPREAD_TOKENS = 4_000;

export function observeTokens(
  { ours, theirs }: { readonly ours: number; readonly theirs: number },
  record: TokenRecord,
): TokenRecord {
  return {
    calls: record.calls + 1,
    ours: record.ours + ours,
    theirs: record.theirs + theirs,
    oursSquared: record.oursSquared + ours * ours,
    product: record.product + ours * theirs,
  };
}

/**
 * Returns the best scale for a session's calls: a ridge regression (Hoerl, Kennard 1970) towards one to one.
 */
export function tokenScale(record: TokenRecord): TokenScale {
  const scale = marginalScale(record);
  const { ours, theirs } = record;
  // A lower count means a coarser tokenizer, whatever the slope.
  return scale.unseen >= 0 ? scale : { perToken: theirs / ours, unseen: 0 };
}

/** Returns the scale of what calls add to prompts; `unseen` is negative if the rest has a lower count. */
function marginalScale({ calls, ours, theirs, oursSquared, product }: TokenRecord): TokenScale {
  if (calls === 0) return { perToken: 1, unseen: 0 };
  const prior = PRIOR_SPREAD_TOKENS ** 2;
  const perToken = (product - ours * theirs / calls + prior) / (oursSquared - ours * ours / calls + prior);
  const bounded = Math.min(3, Math.max(0.5, Math.round(50 * perToken) / 50));
  return { perToken: bounded, unseen: (theirs - bounded * ours) / calls };
}

/** Tokens of structure that a session must send until half of a lower count is attributed to it. */
const PRIOR_STRUCTURE_TOKENS = 250;

/** Most of the structure that a provider may omit. */
const MOST_OMITTED = 0.9;

/**
 * Returns how much of the structure of definitions a provider omits, from 0: it renders them with fewer quotes, braces
 * and keywords than JSON. If prompts are shorter than their growth indicates, that is attributed to the structure in
 * them, the more the longer it is.
 */
export function omittedStructure(record: TokenRecord, structureTokens: number): number {
  const { perToken, unseen } = marginalScale(record);
  const missingTokens = Math.max(0, -unseen) / perToken;
  return Math.min(MOST_OMITTED, missingTokens / (structureTokens + PRIOR_STRUCTURE_TOKENS));
}

const structures = new WeakMap<CountTokens, WeakMap<ToolDefinition, number>>();

/** Returns the tokens of definitions without those of their names and descriptions. */
export function structureTokens(tools: readonly ToolDefinition[], countTokens: CountTokens): number {
  const known = structures.get(countTokens) ?? new WeakMap<ToolDefinition, number>();
  structures.set(countTokens, known);
  let tokens = 0;
  for (const tool of tools) {
    const its = known.get(tool) ?? countStructure(tool, countTokens);
    known.set(tool, its);
    tokens += its;
  }
  return tokens;
}

function countStructure(tool: ToolDefinition, countTokens: CountTokens): number {
  const bare = JSON.stringify(tool, (key, value) => {
    if (key === "description" || key === "name") return "";
    if (key !== "properties" || typeof value !== "object" || value === null) return value;
    return Object.values(value);
  });
  return Math.min(countToolTokens(tool, countTokens), countTokens(bare));
}

/** Converts tokens at the start of a prompt to the provider's. */
export function scaled({ perToken, unseen }: TokenScale, tokens: number): number {
  return Math.max(0, unseen + perToken * tokens);
}
