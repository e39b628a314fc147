import {
  type AssistantMessage,
  contentText,
  describeCall,
  type Message,
  type ToolCall,
} from "@tare/messages";
import {
  partsOf,
  partsShownBy,
  type RecordedCall,
  type RecordedUsage,
  type Recording,
  wantedBy,
} from "@tare/simulator/economy";

const READS = /^(?:read|view|open|cat|grep|glob|list|ls|search|find|get)(?:$|_|\s)/i;
const SHELLS = /^(?:bash|shell|exec_command|terminal)$/i;
const READING =
  /^(?:cat|sed -n|head|tail|nl|wc|ls|pwd|rg|grep|find|sort|echo|cd|git (?:log|show|diff|status|ls-files))(?:\s|$)/;

/** Whether a call only reads, as far as its name or its command tells. */
export function onlyReads(call: ToolCall): boolean {
  const { name, arguments: input } = describeCall(call);
  if (READS.test(name)) return true;
  const command = SHELLS.test(name) ? /"(?:command|cmd)":"((?:[^"\\]|\\.)*)"/.exec(input)?.[1] : undefined;
  if (command === undefined || /[<>`]|\$\(/.test(command.replace(/2>(?:&1|\/dev\/null)/g, ""))) return false;
  return command.split(/&&|\|\||[|;]|\\n/).every((part) => READING.test(part.trim()));
}

/**
 * A recording as it would be, had its model asked at once for what it read one call after the other: the calls of a step
 * that only reads stand in the step before, if that only reads as well and every name in their arguments stood already
 * in the prompt by which that one was asked for. What the model said stays; a call whose arguments came with a result
 * in between stays where it was.
 *
 * @returns Also how many of the recorded calls asked for one read alone, and how many are saved.
 */
export function together(
  recording: Recording,
): { readonly recording: Recording; readonly single: number; readonly saved: number } {
  const { messages, calls: recorded } = recording;
  const times = new Map(recorded.map((call) => [call.messages, call.timeMs]));
  const merged: Message[] = [];
  const calls: RecordedCall[] = [];
  const usage = new Map<number, RecordedUsage>();
  /** What stood in the prompt of the step that others may join, and where that step begins. */
  let known = new Set<string>();
  let open: number | undefined;
  let [single, saved] = [0, 0];
  for (let at = 0; at < messages.length;) {
    const message = messages[at]!;
    const end = endOfStep(messages, at);
    if (message.role === "assistant" && times.has(at)) {
      const asked = message.tool_calls ?? [];
      const reads = asked.length > 0 && end > at + asked.length && asked.every(onlyReads);
      if (reads && asked.length === 1) single++;
      const first = merged[open ?? -1];
      if (reads && open !== undefined && first?.role === "assistant" && isKnown(message, known)) {
        saved++;
        merged[open] = joined(first, message);
        merged.push(...messages.slice(at + 1, end));
        addUsage(usage, { at: open, more: recording.usage.get(at) });
      } else {
        if (reads) known = new Set(merged.flatMap((before) => [...partsShownBy(before)]));
        open = reads ? merged.length : undefined;
        calls.push({ messages: merged.length, timeMs: times.get(at)! });
        addUsage(usage, { at: merged.length, more: recording.usage.get(at) });
        merged.push(...messages.slice(at, end));
      }
    } else {
      open = undefined;
      merged.push(...messages.slice(at, end));
    }
    at = end;
  }
  return { recording: { ...recording, messages: merged, calls, usage, compacted: [] }, single, saved };
}

/** Where the results end that answer a message. */
function endOfStep(messages: readonly Message[], at: number): number {
  let end = at + 1;
  while (messages[at]?.role === "assistant" && messages[end]?.role === "tool") end++;
  return end;
}

function isKnown(answer: Message, known: ReadonlySet<string>): boolean {
  return [...wantedBy(answer).names].every((name) => partsOf(name).every((part) => known.has(part)));
}

/** Two answers as one. */
function joined(first: AssistantMessage, second: AssistantMessage): AssistantMessage {
  const words = [first, second].map(({ content }) => contentText(content)).filter((text) => text !== "");
  return {
    ...first,
    content: words.length > 0 ? words.join("\n") : null,
    tool_calls: [...first.tool_calls ?? [], ...second.tool_calls ?? []],
  };
}

function addUsage(
  usage: Map<number, RecordedUsage>,
  { at, more }: { readonly at: number; readonly more: RecordedUsage | undefined },
): void {
  const before = usage.get(at);
  if (more) usage.set(at, { ...before ?? more, output: (before?.output ?? 0) + (more.output ?? 0) });
}
