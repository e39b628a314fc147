// Fixtures for streamed replies.
import type { ModelEvent } from "@tare/messages";
import { ReplyAssembler } from "@tare/wire/internal";

/** Returns a chunk with a delta. */
export function delta(fields: Record<string, unknown>, finish_reason: string | null = null): unknown {
  return { object: "chat.completion.chunk", choices: [{ index: 0, delta: fields, finish_reason }] };
}

/** Returns the events and the reply of these chunks. */
export function assemble(chunks: readonly unknown[], takenIds: readonly string[] = []): {
  readonly events: ModelEvent[];
  readonly completed: Extract<ModelEvent, { type: "completed" }> | undefined;
} {
  const reply = new ReplyAssembler();
  const events = chunks.flatMap((chunk) => reply.read(chunk));
  const completed = reply.finish(new Set(takenIds));
  return { events: completed ? [...events, completed] : events, completed };
}
