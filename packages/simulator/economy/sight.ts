import { contentText, type Message } from "@tare/messages";
import type { PromptUnit } from "@tare/planner/internal/parts";
import { partsOf, visibleParts, visibleSetsOf } from "./needs.ts";

export interface Lost {
  readonly lines: ReadonlySet<string>;
  readonly names: ReadonlySet<string>;
}

/** Visibility that a name needs: unchanged, or each part anywhere (`a/b.ts` under a heading `a/`). */
export type VisibleNames = "whole" | "parts";

/** Lines and names of a session: the last message that contains each, and whether it is visible. */
export class Sight {
  readonly #namesVisible: VisibleNames;
  readonly #lines = new Tally();
  readonly #names = new Tally();
  #users = 0;
  readonly #userTokens: { readonly text: string; readonly tokens: number }[] = [];
  #units: readonly PromptUnit[] = [];
  #view: readonly Message[] = [];
  #ingested = 0;

  constructor(namesVisible: VisibleNames) {
    this.#namesVisible = namesVisible;
  }

  /** Adds the session's next message. `tokens` is counted for user messages only. */
  add(message: Message, countTokens: (message: Extract<Message, { readonly role: "user" }>) => number): void {
    const { lines, names } = visibleSetsOf(message);
    this.#lines.add(lines, this.#ingested);
    this.#names.add(names, this.#ingested);
    this.#ingested++;
    if (message.role !== "user") return;
    const tokens = countTokens(message);
    this.#userTokens.push({ text: contentText(message.content), tokens });
    this.#users += tokens;
  }

  /** Replaces the view, in time proportional to the difference. `units` identify its messages. */
  show(view: readonly Message[], units: readonly PromptUnit[]): void {
    let same = 0;
    while (same < units.length && units[same]?.hash === this.#units[same]?.hash) same++;
    for (const message of this.#view.slice(same)) this.#count(message, -1);
    for (const message of view.slice(same)) this.#count(message, 1);
    this.#view = view;
    this.#units = units;
  }

  get view(): readonly Message[] {
    return this.#view;
  }

  lost({ lines, names }: Lost): Lost {
    const lost = { lines: this.#lines.lost(lines), names: this.#names.lost(names) };
    return this.#namesVisible === "whole" ? lost : { ...lost, names: this.#withoutParts(lost.names) };
  }

  bearers({ lines, names }: Lost): number[] {
    const places = new Set<number>();
    for (const line of lines) places.add(this.#lines.place(line));
    for (const name of names) places.add(this.#names.place(name));
    return [...places].filter((place) => place >= 0).sort((a, b) => b - a);
  }

  userShareGone(): number {
    const visible = new Set(
      this.#view.filter(({ role }) => role === "user").map(({ content }) => contentText(content)),
    );
    let gone = 0;
    for (const { text, tokens } of this.#userTokens) if (!visible.has(text)) gone += tokens;
    return this.#users === 0 ? 0 : gone / this.#users;
  }

  #withoutParts(names: ReadonlySet<string>): ReadonlySet<string> {
    const isVisible = (part: string) => this.#view.some((message) => visibleParts(message).has(part));
    return new Set([...names].filter((name) => !partsOf(name).every(isVisible)));
  }

  #count(message: Message, by: 1 | -1): void {
    const { lines, names } = visibleSetsOf(message);
    this.#lines.show(lines, by);
    this.#names.show(names, by);
  }
}

/** Texts of one kind: the last position of each, and the number of visible messages that contain it. */
class Tally {
  readonly #ingested = new Map<string, number>();
  readonly #visible = new Map<string, number>();

  add(texts: Iterable<string>, place: number): void {
    for (const text of texts) this.#ingested.set(text, place);
  }

  show(texts: Iterable<string>, by: 1 | -1): void {
    for (const text of texts) this.#visible.set(text, (this.#visible.get(text) ?? 0) + by);
  }

  lost(wanted: Iterable<string>): ReadonlySet<string> {
    const lost = new Set<string>();
    for (const text of wanted) {
      if (this.#ingested.has(text) && (this.#visible.get(text) ?? 0) <= 0) lost.add(text);
    }
    return lost;
  }

  place(text: string): number {
    return this.#ingested.get(text) ?? -1;
  }
}
