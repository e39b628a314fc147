import {
  countMessageTokens,
  countRequestTokens,
  type CountTokens,
  type Message,
  type Rewrite,
} from "@tare/messages";
import type { Elision, TurnsSummary } from "@tare/prune";
import {
  type DropEdit,
  type ElideEdit,
  fittingEdits,
  type History,
  type PlacedView,
  placedView,
  type SummariseEdit,
} from "../edits/view.ts";
import { howMany, type Mechanisms } from "../prompt_session.ts";

/** What stays as it is until the session ends, or a later summary takes it in. */
export type ClassicEdit = StickyElision | SummariseEdit | DropEdit;

/** An elision, and what it keeps out of every request. */
interface StickyElision extends ElideEdit {
  readonly mechanism: "prune" | "truncate";
  readonly savedTokens: number;
}

/** A history as the model sees it, while more of it leaves. */
export class EditedHistory {
  /** What was rewritten, in words. */
  readonly rewrites: Rewrite[] = [];
  readonly #history: History;
  readonly #countTokens: CountTokens;
  #edits: readonly ClassicEdit[];
  #seen: PlacedView;

  /** A history with the edits of it that fit. */
  constructor(history: History, edits: readonly ClassicEdit[], countTokens: CountTokens) {
    this.#history = history;
    this.#countTokens = countTokens;
    const fitting = fittingEdits(edits, history.messages);
    this.#edits = fitting.length < edits.length ? fitting : edits;
    this.#seen = placedView(history, this.#edits);
  }

  /** All edits that hold now; the very list that was handed in if it is the same. */
  get edits(): readonly ClassicEdit[] {
    return this.#edits;
  }

  /** What the model sees, with the tools in full. */
  get seen(): PlacedView {
    return this.#seen;
  }

  /** Lets results leave, which are counted as the model sees them. */
  elide(
    elisions: readonly Elision[],
    told: Pick<StickyElision, "mechanism"> & Pick<Rewrite, "reason">,
  ): void {
    if (elisions.length === 0) return;
    const { mechanism } = told;
    const edits = elisions.map(({ index, toolCallId, ref, text, tokensAfter }): StickyElision => {
      const place = this.#seen.places[index] ?? -1;
      const original = this.#history.messages[place];
      const tokensBefore = original ? countMessageTokens(original, this.#countTokens) : 0;
      const savedTokens = tokensBefore - tokensAfter;
      return { type: "elide", index: place, toolCallId, ref, text, mechanism, savedTokens };
    });
    const tokens = elisions.reduce((sum, one) => sum + one.tokensBefore - one.tokensAfter, 0);
    const names = [...new Set(elisions.map(({ tool }) => tool))].join(", ");
    this.#add(edits, {
      ...told,
      removed: `${tokens} tokens of ${howMany(elisions.length, "result")} of ${names}`,
    });
  }

  /** Lets the oldest turns leave. */
  summarise({ end, kind, ref, text }: TurnsSummary, reason: string): void {
    const { messages, places } = this.#seen;
    const old = messages.slice(0, end).filter(({ role }) =>
      role !== "system" && role !== "developer" && (kind === "drop" || role !== "user")
    );
    const how = kind === "drop" ? "those of the user too, without a summary" : "summarised";
    const removed = `${howMany(old.length, "message")} of old turns, ${how}`;
    const type = kind === "drop" ? "drop" : "summarise";
    this.#add([{ type, from: 0, to: places[end] ?? 0, ref, text }], {
      mechanism: "summarise",
      reason,
      removed,
    });
  }

  /** Tokens that each mechanism but `schemas` keeps out of a request with these messages. */
  savedIn(messages: readonly Message[]): Readonly<Record<Exclude<keyof Mechanisms, "schemas">, number>> {
    const of = (mechanism: StickyElision["mechanism"]) =>
      this.#edits.reduce(
        (sum, edit) => edit.type === "elide" && edit.mechanism === mechanism ? sum + edit.savedTokens : sum,
        0,
      );
    const [prune, truncate] = [of("prune"), of("truncate")];
    const all = this.#tokensOf(this.#history.messages) - this.#tokensOf(messages);
    return { context: all - prune - truncate, prune, truncate };
  }

  #add(edits: readonly ClassicEdit[], told: Omit<Rewrite, "tokensBefore" | "tokensAfter">): void {
    const replaced = new Set(edits.flatMap((edit) => edit.type === "elide" ? [edit.index] : []));
    const kept = this.#edits.filter((edit) => edit.type !== "elide" || !replaced.has(edit.index));
    const { tools } = this.#history;
    const tokensBefore = this.#tokensOf(this.#seen.messages, tools);
    this.#edits = [...kept, ...edits];
    this.#seen = placedView(this.#history, this.#edits);
    this.rewrites.push({ ...told, tokensBefore, tokensAfter: this.#tokensOf(this.#seen.messages, tools) });
  }

  #tokensOf(messages: readonly Message[], tools: History["tools"] = []): number {
    return countRequestTokens({ messages, tools }, this.#countTokens);
  }
}
