/** Recognition of random clients, whose conversations only the test knows. */
import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import {
  type HistoryItem,
  type KnownConversation,
  Recognition,
  type RequestHistory,
} from "@tare/planner/internal";
import fc, { cases } from "../../../tests/cases.ts";

interface Item extends HistoryItem {
  readonly texts: readonly string[];
}

interface Known extends KnownConversation {
  facts: KnownConversation["facts"];
}

interface Talk {
  /** The recognized conversation. */
  known?: Known;
  readonly scope: string;
  readonly name: string | undefined;
  readonly isKeyed: boolean;
  readonly tail: "none" | "items" | "text";
  readonly task: string;
  items: readonly Item[];
  /** Items of the last request, and those that aren't transient. */
  sent: readonly Item[];
  lasting?: readonly Item[];
}

type Outcome = "continue" | "fork" | "new";

/**
 * Requests that content can't distinguish; each of these outcomes is accepted.
 *
 * - `edited`: a client went back and requests something else; whether the old branch continues is unknown: a
 * fork.
 * - `opening`: a client went back before the first reply, so it only shares an opening: a new conversation.
 * - `retold`: a summary that quotes nothing, without key and instructions; or a message after a summary that
 * no model has answered yet, which may be an edit or the first one.
 */
const AMBIGUOUS: Readonly<Record<string, readonly Outcome[]>> = {
  edited: ["fork", "new"],
  opening: ["new"],
  retold: ["continue", "fork", "new"],
};

const OPS = [
  "step",
  "step",
  "step",
  "answer",
  "answer",
  "answer",
  "retry",
  "clear",
  "cut stream",
  "interrupt",
  "go back",
  "fork",
  "fork",
  "compact, quoted",
  "compact, unquoted",
  "compact, cut off",
  "title",
  "count",
  "begin alike",
  "begin titled",
  "leave unbegun",
  "subagent",
  "restart",
] as const;

const act = fc.record({ op: fc.constantFrom(...OPS), who: fc.nat(9), size: fc.nat(9) });
const client = fc.record({
  isKeyed: fc.boolean(),
  isNamed: fc.boolean(),
  hasRules: fc.boolean(),
  tail: fc.constantFrom("none" as const, "items" as const, "text" as const),
  acts: fc.array(act, { minLength: 4, maxLength: 60, size: "max" }),
});

class Play {
  readonly #talks: Talk[] = [];
  #recognition = new Recognition<Known>();
  #count = 0;
  readonly #knowns = new Set<Known>();
  /** Histories that their clients left for another branch. */
  readonly #left: (readonly Item[])[] = [];

  readonly manner: Pick<Talk, "isKeyed" | "tail"> & { readonly isNamed: boolean; readonly hasRules: boolean };

  constructor(manner: Play["manner"]) {
    this.manner = manner;
  }

  #unique(text: string): string {
    return `${text} ${++this.#count}`;
  }

  item(role: Item["role"], text: string, shape?: string): Item {
    return { role, exact: `${role} ${text} ${shape ?? ""}`, shape, texts: [text] };
  }

  begin(
    { rules = "You are an agent.", task = this.#unique("Do the task number"), isTitled = false } = {},
  ): void {
    const { isKeyed, tail, isNamed } = this.manner;
    const talk: Talk = {
      ...{ scope: "scope", isKeyed, tail, task, sent: [] },
      name: this.#nameOne(),
      items: [...this.manner.hasRules ? [this.item("instruction", rules)] : [], this.item("user", task)],
    };
    // A copy of a conversation that waits for its first reply is a retry of it, apart from transient text.
    if (this.#hasTwin(talk.items) && !isNamed) return;
    // With a key whose client requested a summary, the next conversation continues it.
    if (isKeyed && [...this.#knowns].some(({ facts: { summary } }) => summary?.isRequested)) return;
    if (isTitled) this.#precede(talk, talk.items);
    this.#talks.push(talk);
    this.ask(talk, ["new"]);
  }

  #nameOne(): string | undefined {
    return this.manner.isNamed ? this.#unique("name") : undefined;
  }

  #named(name: string | undefined): Known | undefined {
    return name === undefined ? undefined : [...this.#knowns].find(({ facts }) => facts.name === name);
  }

  /**
   * Sends a request that isn't a turn. Without a known conversation it belongs to one without a turn, which
   * may stay so.
   */
  #precede({ scope, isKeyed, name }: Pick<Talk, "scope" | "isKeyed" | "name">, items: readonly Item[]): void {
    const request = { scope, isKeyed, name, items, textsOf: (at: number) => items[at]!.texts };
    const named = this.#named(name);
    if (this.#recognition.about(request, named)) return;
    const known: Known = this.#recognition.preceding(request, named) ??
      { facts: { scope, name, isAmidTurn: false } };
    assertEquals(known.facts.turns, undefined);
    this.#knowns.add(known);
    this.#recognition.follow(known, request, ++this.#count);
  }

  /** Returns whether another conversation may have the same history with the same replies. */
  #hasTwin(items: readonly Item[]): boolean {
    const histories = [...this.#talks.map(({ items }) => items), ...this.#left];
    return histories.some((other) => same(other, items.slice(0, other.length)));
  }

  /** Returns whether a history has more than an opening: a reply, or its initial summary. */
  #isOwn({ items, known }: Talk): boolean {
    return items.some(({ role, texts }) =>
      role === "reply" || known!.facts.begunWith?.pieces.some((piece) => texts.join().includes(piece))
    );
  }

  #request(
    { items, tail, scope, isKeyed, name }: Talk,
  ): RequestHistory & { readonly items: readonly Item[] } {
    const block = this.#unique("<<<context>>>\nIt is second number");
    const last = items.at(-1)!;
    const added = tail === "items"
      ? [...items, this.item("user", block)]
      : tail === "text"
      ? [...items.slice(0, -1), this.item(last.role, `${last.texts.join("\n")}\n\n${block}`, last.shape)]
      : items;
    return { scope, isKeyed, name, items: added, textsOf: (at) => added[at]!.texts };
  }

  ask(talk: Talk, outcomes: readonly Outcome[], request = this.#request(talk)): void {
    const named = this.#named(talk.name);
    const before = talk.known;
    const recognized = this.#recognition.recognize(request, named);
    const outcome = recognized.type;
    // A turn that continues a conversation without one is the first of a new one.
    const isFirst = outcome === "continue" && recognized.known.facts.turns === undefined;
    assert(
      outcomes.includes(isFirst ? "new" : outcome) ||
        named === before && outcome === "continue" && named !== undefined,
      `${outcome} instead of ${outcomes}: ${request.items.map(({ exact }) => exact).join(" | ")}`,
    );
    if (outcome === "continue" && before && !isFirst) assertStrictEquals(recognized.known, before);
    // Any of several equal ones may be forked.
    if (outcome === "fork") {
      const { known, at } = recognized;
      assert(same(this.#recognition.stored(known).items.slice(0, at), request.items.slice(0, at)));
    }
    const { scope, name } = talk;
    const known: Known = outcome === "continue" ? recognized.known : {
      facts: { ...outcome === "fork" && recognized.known.facts, scope, name, turns: 1, isAmidTurn: true },
    };
    this.#knowns.add(known);
    if (before && before !== known && talk.lasting) this.#left.push(talk.lasting);
    talk.lasting = talk.items;
    const { summary, ...facts } = known.facts;
    const isRestarted = outcome === "continue" && recognized.how === "compacted";
    const pieces = isRestarted ? summary?.pieces : facts.begunWith?.pieces;
    const isAnswered = !isRestarted && request.items.some(({ role }) => role === "reply");
    const begunWith = pieces && { pieces, isAnswered };
    known.facts = { ...facts, begunWith, turns: 1, isAmidTurn: true, ...(!isRestarted && { summary }) };
    this.#recognition.follow(known, request, ++this.#count);
    talk.known = known;
    talk.sent = request.items;
  }

  /** Sends requests that aren't turns: about this conversation, a similar one, or none. */
  #aside(talk: Talk, items: readonly Item[], isKnown: boolean): void {
    const { scope, isKeyed } = talk;
    const request = { scope, isKeyed, name: talk.name, items, textsOf: (at: number) => items[at]!.texts };
    const before = [...this.#knowns].map((known) => [...this.#recognition.stored(known).items]);
    const about = this.#recognition.about(request, talk.name === undefined ? undefined : talk.known);
    if (isKnown) assertStrictEquals(about?.known, talk.known);
    assertEquals([...this.#knowns].map((known) => this.#recognition.stored(known).items), before);
  }

  do(
    { op, who, size }: { readonly op: typeof OPS[number]; readonly who: number; readonly size: number },
  ): void {
    const talk = this.#talks[who % this.#talks.length]!;
    const known = talk.known!;
    const heads = talk.items.filter(({ role }) => role === "instruction");
    const userItem = (text: string) => this.item("user", this.#unique(text));
    const steps = (count: number): Item[] => {
      const call = this.#unique("calls");
      const ids = Array.from({ length: count }, (_, at) => `${call}.${at}`);
      return [this.item("reply", call), ...ids.map((id) => this.item("result", this.#unique("result"), id))];
    };
    const add = (...items: readonly Item[]) => {
      talk.items = [...talk.items, ...items];
    };
    switch (op) {
      case "step":
        add(...steps(1 + size % 3));
        return this.ask(talk, ["continue"]);
      case "answer": {
        known.facts = { ...known.facts, isAmidTurn: false };
        // Copies with the same reply are equal; the newest is expected.
        const reply = size < 3 && this.#talks.length === 1 ? "Done." : this.#unique("Done");
        add(this.item("reply", reply), userItem("And now"));
        return this.ask(talk, ["continue"]);
      }
      case "retry":
        return this.ask(talk, ["continue"], {
          ...this.#request(talk),
          items: talk.sent,
          textsOf: (at) => talk.sent[at]!.texts,
        });
      case "clear": {
        const results = talk.items.filter((item) =>
          item.shape !== undefined && !item.exact.includes("cleared")
        );
        // The last ones are unchanged; a single different one may belong to another conversation.
        const cleared = new Set(results.slice(0, 2 + size % 3));
        if (cleared.size < 2 || results.length - cleared.size < 1) return;
        talk.items = talk.items.map((item) =>
          cleared.has(item) ? this.item("result", "cleared", item.shape) : item
        );
        add(...steps(1));
        return this.ask(talk, ["continue"]);
      }
      case "cut stream": {
        const items = [...talk.items, this.item("thought", this.#unique("Hm"))];
        this.ask(talk, ["continue"], this.#request({ ...talk, items, tail: "none" }));
        // A client may retain the thought as part of the next reply.
        add(...steps(1));
        return this.ask(talk, ["continue"]);
      }
      case "interrupt": {
        const last = talk.items.findLastIndex(({ role }) => role === "reply");
        const turn = talk.items.findLastIndex(({ role }) => role === "user");
        if (last < turn || turn < 1) return;
        const items = [...talk.items.slice(0, last), userItem("Go on")];
        if (this.#hasTwin(items)) return;
        talk.items = items;
        return this.ask(talk, this.#isOwn(talk) ? ["continue"] : AMBIGUOUS.opening!);
      }
      case "go back": {
        const at = talk.items.findIndex(({ role }, at) => at > size % 4 && role === "user");
        if (at < 0 || at === talk.items.length - 1 && talk.tail !== "none") return;
        const items = [...talk.items.slice(0, at), userItem("Do something else")];
        if (this.#hasTwin(items)) return;
        talk.items = items;
        const isAnswered = items.some(({ role }) => role === "reply");
        const way = isAnswered ? "edited" : this.#isOwn(talk) ? "retold" : "opening";
        return this.ask(talk, AMBIGUOUS[way]!);
      }
      case "fork": {
        const at = talk.items.findIndex(({ role }, at) => at > size % 4 && role === "user");
        if (at < 0 || at === talk.items.length - 1 || talk.name !== undefined) return;
        const items = [...talk.items.slice(0, at), userItem("Try another way")];
        if (!items.some(({ role }) => role === "reply") || this.#hasTwin(items)) return;
        const fork: Talk = { ...talk, items };
        this.#talks.push(fork);
        return this.ask(fork, ["fork"]);
      }
      case "compact, quoted": {
        const summary = `${this.#unique("A summary of all that was said and done in conversation")}.`;
        this.#aside(talk, [...talk.sent, userItem("Summarize the conversation")], false);
        known.facts = { ...known.facts, summary: { pieces: [summary], isRequested: false } };
        talk.items = [...heads, this.item("user", `Continued. ${summary}`)];
        return this.ask(talk, ["continue"]);
      }
      case "compact, unquoted": {
        // With a key of several conversations the newest is expected.
        if (talk.isKeyed && talk.name === undefined && this.#talks.length > 1) return;
        known.facts = { ...known.facts, summary: { pieces: [], isRequested: true } };
        talk.items = [...heads, userItem("An opaque summary")];
        return this.ask(talk, talk.isKeyed && heads.length > 0 ? ["continue"] : AMBIGUOUS.retold!);
      }
      case "compact, cut off": {
        const from = talk.items.length - 2 - size % 3;
        const end = talk.items.slice(from);
        const isEnd = from > 2 && end.some(({ role }) => role === "reply") && end.at(-1)!.shape !== undefined;
        const results = end.filter(({ shape }) => shape !== undefined).length;
        // A single call with another result may belong to another conversation.
        if (!isEnd || end[0]!.role === "result" || results < (talk.tail === "text" ? 2 : 1)) return;
        talk.items = [...heads, userItem("What came before"), ...end];
        return this.ask(talk, ["continue"]);
      }
      case "title": {
        const titled = this.item("user", `Write a title for: ${talk.task}`);
        return this.#aside(talk, [this.item("instruction", "You write titles."), titled], false);
      }
      case "count":
        return this.#aside(talk, talk.sent, true);
      case "begin alike":
        return this.begin({ task: talk.task });
      case "begin titled":
        return this.begin({ isTitled: true });
      case "leave unbegun": {
        const opening = [...heads, userItem("Do the task number")];
        const requests = size % 3 === 0 ? [...opening, ...steps(1), userItem("Summarize")] : opening;
        return this.#precede({ ...talk, name: this.#nameOne() }, requests);
      }
      case "subagent":
        return this.begin({ rules: "You are a subagent.", task: talk.task });
      case "restart": {
        const recognition = new Recognition<Known>();
        let at = 0;
        for (const one of this.#knowns) {
          const { items, stems } = structuredClone(this.#recognition.stored(one));
          recognition.restore(one, { items, stems }, at++);
        }
        this.#recognition = recognition;
        return;
      }
    }
  }
}

function same(one: readonly HistoryItem[], other: readonly HistoryItem[]): boolean {
  return one.length === other.length && one.every(({ exact }, at) => exact === other[at]!.exact);
}

Deno.test("Recognition finds each conversation of random clients again, however they change its history", () => {
  fc.assert(
    fc.property(client, ({ acts, ...manner }) => {
      const play = new Play(manner);
      play.begin();
      for (const one of acts) play.do(one);
    }),
    { numRuns: cases(500), endOnFailure: false },
  );
});
