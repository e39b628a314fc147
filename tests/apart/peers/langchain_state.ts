import type { BaseMessage } from "@langchain/core/messages";
import type { Message } from "@tare/messages";
import { toLangChain } from "./langchain_messages.ts";

export class State {
  #taken = 0;
  messages: BaseMessage[] = [];

  /** Appends new messages; returns those of the system prompt. */
  take(history: readonly Message[]): readonly Message[] {
    const first = Math.max(0, history.findIndex(({ role }) => role !== "system" && role !== "developer"));
    const from = Math.max(first, this.#taken);
    const fresh = history.slice(from);
    let at = from;
    this.messages.push(...toLangChain(fresh, () => `m${at++}`));
    this.#taken = history.length;
    return history.slice(0, first);
  }
}

/** Calls a middleware's hook, a function or an object with one. */
export function call(hook: unknown, ...args: unknown[]): unknown {
  const run = typeof hook === "function" ? hook : (hook as { readonly hook: unknown }).hook;
  return (run as (...args: unknown[]) => unknown)(...args);
}
