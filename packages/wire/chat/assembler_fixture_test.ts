// What the tests of replies that come in chunks share.
import type { ModelEvent } from "@tare/messages";
import { ReplyAssembler } from "@tare/wire/internal";

/** A chunk of a stream that holds this delta. */
export function delta(fields: Record<string, unknown>, finish_reason: string | null = null): unknown {
  return { object: "chat.completion.chunk", choices: [{ index: 0, delta: fields, finish_reason }] };
}

/** What the assembler tells of these chunks, and the reply that they make. */
export function assemble(chunks: readonly unknown[], takenIds: readonly string[] = []): {
  readonly events: ModelEvent[];
  readonly completed: Extract<ModelEvent, { type: "completed" }> | undefined;
} {
  const reply = new ReplyAssembler();
  const events = chunks.flatMap((chunk) => reply.read(chunk));
  const completed = reply.finish(new Set(takenIds));
  return { events: completed ? [...events, completed] : events, completed };
}
