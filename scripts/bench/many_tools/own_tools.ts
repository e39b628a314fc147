/**
 * What the server's own tools take of recorded sessions, if those that are seldom used are compact or deferred from the
 * first request on.
 *
 * @module
 */
import {
  type CountTokens,
  describeCall,
  type FunctionToolCall,
  type Message,
  type ToolDefinition,
} from "@tare/messages";
import { workspaceTools } from "@tare/loop/tools";
import type { Profile } from "@tare/planner";
import { memoryArchive } from "@tare/prune";
import { CALL_TOOL, Catalogue, compactTool, FIND_TOOLS } from "@tare/schemas";
import { play, type RecordedCall, type RecordedUsage, type Recording } from "@tare/simulator/economy";
import { policyNamed } from "../economy/policies/policies.ts";

/** The tools that recorded agents call least, and what those agents call them. */
const SELDOM: Readonly<Record<string, RegExp>> = {
  list_files: /^(?:glob|ls|list_?(?:files|dir\w*))$/i,
  write_file: /^(?:write|write_?file|create)$/i,
};

/** What a way to offer them comes to, relative to showing all in full. */
export interface OwnTools {
  readonly name: string;
  /** Tokens of the first request that are definitions or tell of them. */
  readonly toolTokens: number;
  /** Share of the sessions that call one of the tools that are seldom used. */
  readonly using: number;
  /** Cost where nothing is looked up, and no call fails for its prose. */
  readonly least: number;
  /** Cost where each of them is looked up before its first call, or fails once and is taught. */
  readonly most: number;
}

/** Plays recorded sessions with the server's own tools, everything resent. */
export async function playOwnTools(
  recordings: readonly Recording[],
  { profile, countTokens }: { readonly profile: Profile; readonly countTokens: CountTokens },
): Promise<readonly OwnTools[]> {
  const own = workspaceTools({ workspace: ".", archive: memoryArchive() }).map(({ definition }) =>
    definition
  );
  const isSeldom = (tool: ToolDefinition) => Object.hasOwn(SELDOM, tool.function.name);
  const seldom = own.filter(isSeldom);
  const list: Message = { role: "system", content: new Catalogue(seldom, { countTokens }).text() };
  const offers = [
    { name: "in full", tools: own, told: [], taught: [] },
    {
      name: "seldom used ones compact",
      tools: own.map((tool) => isSeldom(tool) ? compactTool(tool) : tool),
      told: [],
      taught: seldom,
    },
    {
      name: "seldom used ones deferred",
      tools: [...own.filter((tool) => !isSeldom(tool)), FIND_TOOLS, CALL_TOOL],
      told: [list],
      taught: seldom,
    },
  ];
  const { make } = policyNamed("resend");
  const costs = async (change: (recording: Recording) => Recording) => {
    let cost = 0;
    for (const { fixedPrefixTokens: _, ...recording } of recordings) {
      const options = { profile, windowTokens: Infinity, countTokens, recall: false, repairs: false };
      cost += (await play(change(recording), make, options)).cost;
    }
    return cost;
  };
  const full = await costs((recording) => ({ ...recording, tools: own }));
  const using = recordings.filter(({ messages }) => firstUses(messages, seldom).size > 0).length;
  const rows: OwnTools[] = [];
  for (const { name, tools, told, taught } of offers) {
    const offered = (recording: Recording) => insert({ ...recording, tools }, new Map([[1, told]]));
    rows.push({
      name,
      toolTokens: [...tools, ...told].reduce((sum, one) => sum + countTokens(JSON.stringify(one)), 0),
      using: using / recordings.length,
      least: await costs(offered) / full,
      most: await costs((recording) => offered(insert(recording, firstUses(recording.messages, taught)))) /
        full,
    });
  }
  return rows;
}

/** What stands in front of the first call of each of these tools: a call more, and the whole definition. */
function firstUses(
  messages: readonly Message[],
  tools: readonly ToolDefinition[],
): ReadonlyMap<number, readonly Message[]> {
  const uses = new Map<number, readonly Message[]>();
  for (const tool of tools) {
    const at = messages.findIndex((message) =>
      message.role === "assistant" &&
      message.tool_calls?.some((call) => SELDOM[tool.function.name]?.test(describeCall(call).name))
    );
    if (at < 0) continue;
    const id = `taught_${tool.function.name}`;
    const asks = {
      name: FIND_TOOLS.function.name,
      arguments: JSON.stringify({ names: [tool.function.name] }),
    };
    const call: FunctionToolCall = { id, type: "function", function: asks };
    const taught = JSON.stringify(tool.function);
    uses.set(at, [
      ...uses.get(at) ?? [],
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: id, content: taught },
    ]);
  }
  return uses;
}

/** A recording with more messages in front of some of its own. Answers among them take a call. */
function insert(recording: Recording, more: ReadonlyMap<number, readonly Message[]>): Recording {
  const messages: Message[] = [];
  const calls: RecordedCall[] = [];
  const usage = new Map<number, RecordedUsage>();
  const times = new Map(recording.calls.map((call) => [call.messages, call.timeMs]));
  for (const [at, message] of recording.messages.entries()) {
    for (const one of more.get(at) ?? []) {
      if (one.role === "assistant") calls.push({ messages: messages.length, timeMs: times.get(at) ?? 0 });
      messages.push(one);
    }
    const timeMs = times.get(at);
    if (timeMs !== undefined) calls.push({ messages: messages.length, timeMs });
    const reported = recording.usage.get(at);
    if (reported) usage.set(messages.length, reported);
    messages.push(message);
  }
  return { ...recording, messages, calls, usage };
}
