import {
  CallPairing,
  contentText,
  meantCall,
  type Message,
  type ToolCall,
  type ToolMessage,
} from "@tare/messages";
import {
  holdsPlaceholder,
  looksLikeError,
  parsePlaceholder,
  type PruneOptions,
  RECALL_TOOL,
  resultText,
  traitsOf,
} from "@tare/prune";
import type { Layout } from "../edits/view.ts";
import { readCall } from "./call_facts.ts";

/**
 * Until which call each of many things, by number, is known to be worth carrying, so that it needn't be looked at again.
 * They stand side by side: of thousands each call asks which aren't.
 */
export class Quiet {
  #untilCall = new Float64Array(64);

  /** The first number from one on, that one included, that isn't quiet at this call. */
  nextAwake(from: number, call: number): number {
    const untilCall = this.#untilCall;
    let number = from;
    while (number < untilCall.length && untilCall[number]! > call) number++;
    return number;
  }

  /** A thing is quiet until this call, unless it is woken; infinite: until it is woken. */
  until(number: number, call: number): void {
    if (number >= this.#untilCall.length) {
      const longer = new Float64Array(2 * number);
      longer.set(this.#untilCall);
      this.#untilCall = longer;
    }
    this.#untilCall[number] = call;
  }

  /** Forgets that a thing is. */
  wake(number: number): void {
    if (number < this.#untilCall.length) this.#untilCall[number] = 0;
  }

  /** Forgets that any is. */
  wakeAll(): void {
    this.#untilCall.fill(0);
  }
}

/** What is counted of one message while its session goes on. Calls are numbered from 1. */
export interface Bearer {
  readonly fileText: boolean;
  readonly edits: boolean;
  readonly files: readonly string[];
  /** The call before which it came. */
  came: number;
  /** The call before which it came, or by which one of its names was last used. */
  wanted: number;
  /** Names of which it is the newest bearer. */
  names: number;
  /** Whether it reports an error that nothing has answered yet, or one whose call has succeeded since: nobody misses that. */
  error?: "open" | "over";
  /** Number of the result that it is, if it may be elided. */
  result?: number;
  /** Number of the step that it belongs to. */
  step?: number;
}

/** A result that may be elided, as far as it alone tells. */
export interface Result {
  readonly at: number;
  readonly message: ToolMessage;
  /** Name of the tool that gave it. */
  readonly tool: string;
  /** The archived original that it shows, if it recalled one. */
  readonly recalled: string | undefined;
}

/**
 * A call or several at once, and the answers, which follow it without a gap; none of a tool whose answers stay. What the
 * model thought before belongs to it where that is a message of its own: providers refuse it without its call.
 */
export interface Step {
  readonly from: number;
  readonly to: number;
}

/** How results are judged. */
export interface StandingsOptions {
  readonly tools?: NonNullable<PruneOptions["tools"]>;
  readonly isError?: (message: ToolMessage, index: number) => boolean;
}

/**
 * What a retention rule needs to know of a growing history: the newest bearer of each name, when each file was last
 * edited, its steps and turns. All of it follows from the history alone. A message costs what it says, once; nothing is
 * done for those before it.
 */
export class Standings {
  readonly bearers: Bearer[] = [];
  readonly steps: Step[] = [];
  /** Names of the tools that were called. */
  readonly called: Set<string> = new Set();
  /** Where turns start, the first excepted. An interrupted turn is one with those behind it up to the next answer. */
  readonly turnStarts: number[] = [];
  /** Number of the next call. */
  call = 1;
  readonly results: Result[] = [];
  /** Which results and which steps are known to be worth carrying: a newer bearer of a name of theirs wakes them. */
  readonly quietResults: Quiet = new Quiet();
  readonly quietSteps: Quiet = new Quiet();
  /** Of these, those that a layout of this version may show. */
  #shown: Result[] = [];
  #shownBy: number | undefined;
  readonly #options: StandingsOptions;
  readonly #pairing = new CallPairing();
  readonly #names = new Map<string, Bearer>();
  /** The call that last edited each file. */
  readonly #edited = new Map<string, number>();
  readonly #named = new Set<string>();
  /** What shows each file. */
  readonly #showing = new Map<string, Bearer[]>();
  readonly #recalls = new Map<string, number>();
  /** Errors of each call, by its name and arguments, that has not succeeded since. */
  readonly #errors = new Map<string, Bearer[]>();
  #open:
    | { readonly from: number; readonly at: number; readonly calls: number; readonly stays: boolean }
    | undefined;
  /** Where the thoughts start that the newest messages are and nothing else. */
  #thoughtsFrom: number | undefined;
  #answered = false;

  /** The standings of an empty history. */
  constructor(options: StandingsOptions) {
    this.#options = options;
  }

  /**
   * Takes the next message.
   *
   * @param shown What the model sees of it. Default: all.
   */
  add(message: Message, shown: Message = message): void {
    const at = this.bearers.length;
    this.#addTurn(message, at);
    const pair = this.#pairing.add(message);
    this.#addBearer(shown, pair?.call);
    this.#addStep(message, at, pair?.at);
    if (message.role === "assistant") this.call++;
    if (message.role === "tool" && pair) this.#addResult(message, at, pair.call);
  }

  /** Forgets that a message is known to be worth carrying: what is shown of it has changed. */
  wake(at: number): void {
    this.#wake(this.bearers[at]!);
  }

  /** The results that a layout may show: of those that have left it tells itself when it lays out everything anew. */
  resultsOf(layout: Pick<Layout, "version" | "changed" | "shows">): readonly Result[] {
    if (this.#shownBy !== layout.version) this.#shown = [...this.results];
    this.#shownBy = layout.version;
    if (layout.changed.length > 0) this.#shown = this.#shown.filter(({ at }) => layout.shows(at));
    return this.#shown;
  }

  /** Forgets what is known to be worth carrying. */
  wakeAll(): void {
    this.quietResults.wakeAll();
    this.quietSteps.wakeAll();
  }

  /** Takes note that the newest message refers to one in front of it. */
  renew(at: number): void {
    const bearer = this.bearers[at]!;
    bearer.wanted = this.call;
    bearer.came = this.call;
  }

  /** Position of the first message of the turn that is being worked on. */
  get activeStart(): number {
    return this.turnStarts.at(-1) ?? 0;
  }

  /** Position behind the last complete turn but one: before it, steps may leave. */
  get stepsEnd(): number {
    return this.turnStarts.at(-2) ?? 0;
  }

  /** Position of the newest answer of the model; what stands behind it hasn't been seen. */
  newestAnswer = -1;

  /** Whether a message shows a file that the user has named and that nobody has edited since it came. */
  isNamed({ fileText, files, came }: Bearer): boolean {
    if (!fileText || files.some((file) => (this.#edited.get(file) ?? -1) > came)) return false;
    return files.some((file) => file.length >= 5 && this.#named.has(file));
  }

  /** Whether an original was recalled so often that it stays where it is shown. */
  isRecalledOften(ref: string): boolean {
    return (this.#recalls.get(ref) ?? 0) >= 2;
  }

  /** Whether any of the originals that were recalled often is shown by a text. */
  showsRecalled(text: string): boolean {
    for (const [ref, times] of this.#recalls) if (times >= 2 && holdsPlaceholder(text, ref)) return true;
    return false;
  }

  #addTurn({ role, ...message }: Message, at: number): void {
    if (role === "system" || role === "developer") return;
    if (role === "user") {
      if (this.#answered) {
        // Files that the user named weigh as much in the active turn alone.
        for (const bearer of this.bearers.slice(this.activeStart)) {
          if (bearer.fileText) this.#wake(bearer);
        }
        this.turnStarts.push(at);
        // What may leave as steps of an old turn is more from now on.
        this.quietSteps.wakeAll();
      }
      for (const name of fileNamesIn(contentText(message.content))) this.#named.add(name);
    }
    if (role === "assistant") this.newestAnswer = at;
    this.#answered = role === "assistant" && contentText(message.content) !== "" &&
      ("tool_calls" in message ? message.tool_calls ?? [] : []).length === 0;
  }

  #addBearer(message: Message, answered: Parameters<typeof findFacts>[1]["answered"]): void {
    const { call } = this;
    const facts = findFacts(message, { answered, tools: this.#options.tools });
    for (const name of facts.wants) {
      const bearer = this.#names.get(name);
      if (bearer) bearer.wanted = call;
    }
    const { fileText, edits, files } = facts;
    const bearer: Bearer = {
      fileText,
      edits,
      files,
      came: call,
      wanted: call,
      names: facts.names.size,
    };
    for (const name of facts.names) {
      const before = this.#names.get(name);
      this.#names.set(name, bearer);
      if (!before) continue;
      before.names--;
      this.#wake(before);
    }
    for (const file of files) {
      const showing = this.#showing.get(file);
      if (edits) {
        this.#edited.set(file, call);
        showing?.forEach((one) => this.#wake(one));
      }
      if (showing) showing.push(bearer);
      else this.#showing.set(file, [bearer]);
    }
    this.bearers.push(bearer);
  }

  #addStep(message: Message, at: number, answeredAt: number | undefined): void {
    if (message.role === "assistant") {
      const names = (message.tool_calls ?? []).map((call) => meantCall(call).name);
      const stays = message.keep || names.some((name) => this.#stays(name));
      const { content, reasoning_content: thoughts } = message;
      const from = this.#thoughtsFrom ?? at;
      const isThought = names.length === 0 && thoughts !== undefined && contentText(content) === "";
      this.#thoughtsFrom = isThought ? from : undefined;
      this.#open = names.length > 0 ? { from, at, calls: names.length, stays } : undefined;
      for (const name of names) this.called.add(name);
      return;
    }
    this.#thoughtsFrom = undefined;
    if (message.role !== "tool" || !this.#open || answeredAt !== this.#open.at) {
      this.#open = undefined;
      return;
    }
    if (message.keep) this.#open = { ...this.#open, stays: true };
    const { from, calls, stays } = this.#open;
    if (stays || at - this.#open.at !== calls) return;
    const step = this.steps.push({ from, to: at + 1 }) - 1;
    for (const bearer of this.bearers.slice(from)) bearer.step = step;
  }

  #addResult(message: ToolMessage, at: number, call: ToolCall): void {
    const { name: tool, arguments: input } = meantCall(call);
    const recalled = tool === RECALL_TOOL.function.name ? /[0-9a-f]{16}/.exec(input)?.[0] : undefined;
    if (recalled) this.#recalls.set(recalled, (this.#recalls.get(recalled) ?? 0) + 1);
    const { isError = looksLikeError } = this.#options;
    if (this.#stays(tool)) return;
    const text = resultText(message);
    if (text === undefined || parsePlaceholder(text.split("\n", 1)[0] ?? "")) return;
    const result = { at, message, tool, recalled };
    const bearer = this.bearers[at]!;
    bearer.result = this.results.push(result) - 1;
    this.#shown.push(result);
    const sameCall = `${tool} ${input}`;
    const errors = this.#errors.get(sameCall) ?? [];
    if (message.failed ?? isError(message, at)) {
      bearer.error = "open";
      this.#errors.set(sameCall, [...errors, bearer]);
      return;
    }
    // Calls made at once don't answer one another.
    for (const error of errors.filter(({ came }) => came < this.call)) {
      error.error = "over";
      this.#wake(error);
    }
    if (errors.length > 0) this.#errors.set(sameCall, errors.filter(({ error }) => error === "open"));
  }

  #wake({ result, step }: Bearer): void {
    if (result !== undefined) this.quietResults.wake(result);
    if (step !== undefined) this.quietSteps.wake(step);
  }

  /** Whether what a tool answers never leaves. */
  #stays(tool: string): boolean {
    const { tools } = this.#options;
    return traitsOf(tool, { ...(tools && { tools }) }).stance === "keep";
  }
}

/** What a message says of itself, as far as a retention rule asks. */
interface Facts {
  /** Whether it shows a file: a read's result, or a call that edits or writes. */
  readonly fileText: boolean;
  /** Whether it edits or writes. */
  readonly edits: boolean;
  /** Names of the files that it reads or writes, without their folders. */
  readonly files: readonly string[];
  /** The names in it. */
  readonly names: ReadonlySet<string>;
  /** Names to which its calls refer. */
  readonly wants: ReadonlySet<string>;
}

/** Of longer texts head and tail are looked at. */
const MAX_CHARS = 200_000;

/**
 * The facts of a message. Tools say by their traits what they read and write; those of other people's agents are known
 * by the names that tools commonly have.
 *
 * @param answered The call that it answers.
 */
function findFacts(
  message: Message,
  { answered, tools }: {
    readonly answered: ToolCall | undefined;
    readonly tools: PruneOptions["tools"];
  },
): Facts {
  const calls = message.role === "assistant"
    ? (message.tool_calls ?? []).map((call) => readCall(call, tools))
    : [];
  const about = answered && readCall(answered, tools);
  const reads = about?.reads === true;
  const edits = calls.some((call) => call.edits);
  const wants = new Set<string>();
  for (const { texts } of calls) for (const text of texts) addNames(wants, text);
  const names = new Set(wants);
  addNames(names, contentText(message.content));
  return {
    fileText: reads || edits,
    edits,
    files: [...new Set([...calls.flatMap(({ files }) => files), ...(reads ? about.files : [])])],
    names,
    wants,
  };
}

/** The words of a text that could name a file, without folders. */
function fileNamesIn(text: string): string[] {
  return (headAndTail(text).match(/[\w@.-]+/g) ?? []).map((word) => word.replace(/\.+$/, ""));
}

/** Kinds of the characters that names are made of; a sign stands inside of names alone. */
const [SIGN, LOWER, UPPER, OTHER] = [1, 2, 3, 4];

/** By code of an ASCII character; 0 is no part of a name. */
const KINDS = Uint8Array.from({ length: 128 }, (_, code) => {
  const character = String.fromCharCode(code);
  if (/[./-]/.test(character)) return SIGN;
  if (/[a-z]/.test(character)) return LOWER;
  if (/[A-Z]/.test(character)) return UPPER;
  return /[0-9_]/.test(character) ? OTHER : 0;
});

/** Length of the shortest name. */
const SHORTEST_NAME = 8;

/**
 * Adds the names in a text: words that prose doesn't hold, with a digit, a sign or an inner capital. Every text that
 * comes is looked through, and character by character that takes half the time that a pattern takes.
 */
function addNames(names: Set<string>, text: string): void {
  const seen = headAndTail(text);
  const kindAt = (at: number) => KINDS[seen.charCodeAt(at)] ?? 0;
  for (let at = 0; at < seen.length; at++) {
    if (kindAt(at) <= SIGN) continue;
    const start = at;
    let end = at;
    let isName = false;
    let hasSign = false;
    for (let kind = 0, before = 0; at < seen.length && (kind = kindAt(at)) > 0; at++, before = kind) {
      if (kind === SIGN) hasSign = true;
      else {
        end = at + 1;
        isName ||= hasSign || kind === OTHER || kind === UPPER && before === LOWER;
      }
    }
    if (isName && end - start >= SHORTEST_NAME) names.add(seen.slice(start, end));
  }
}

function headAndTail(text: string): string {
  if (text.length <= MAX_CHARS) return text;
  return `${text.slice(0, MAX_CHARS / 2)}\n${text.slice(-MAX_CHARS / 2)}`;
}
