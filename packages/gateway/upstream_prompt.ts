import type { Message, ToolDefinition } from "@tare/messages";
import { type Edit, placeMessages, view } from "@tare/planner";
import { RECALL_TOOL } from "@tare/prune";
import type { Piece } from "./session.ts";
import { objectFields, readJsonAt } from "@tare/wire";
import type { WireFormat } from "@tare/wire";
import { askForUsage, joinArray, readField, type WireRequest, type WireTool, withFields } from "@tare/wire";

/** What the upstream shall see. */
export interface UpstreamPrompt {
  /** The whole history, hidden pieces included. */
  readonly pieces: readonly Piece[];
  /** What has left of it. */
  readonly edits: readonly Edit[];
  /** Whether the recall tool stands behind the client's own. */
  readonly recall: boolean;
  /** The response that the request follows, if the upstream has another name for it than the client. */
  readonly previousId?: string;
}

/** The tools that the planner knows of a request. */
export function plannedTools(
  tools: readonly WireTool[] | undefined,
  recall: boolean,
): readonly ToolDefinition[] {
  const definitions = (tools ?? []).flatMap(({ definition }) => definition ?? []);
  return recall ? [...definitions, RECALL_TOOL] : definitions;
}

/** The body for the upstream: the client's bytes wherever nothing is changed. */
export function writePrompt(request: WireRequest, prompt: UpstreamPrompt): Uint8Array<ArrayBuffer> {
  const { format, stream, bytes, items } = request;
  const values = new Map<string, Uint8Array<ArrayBuffer>>();
  const { pieces, edits, previousId } = prompt;
  const placed = placeMessages(pieces.map(({ message }) => message), edits);
  const isWhole = pieces.length === items.length &&
    pieces.every(({ message }, at) =>
      message === items[at]?.value && message === placed.messages[at] &&
      placed.messages.length === pieces.length
    );
  if (!isWhole) {
    const written = placed.messages.flatMap((message, at) => {
      const piece = pieces[placed.places[at] ?? -1];
      return writePiece(message, piece, format) ?? [];
    });
    values.set(format.listField, joinArray(written));
  }
  const tools = writeTools(request, prompt);
  if (tools) values.set("tools", tools);
  const usage = stream && format.asksForUsage ? askForUsage(request) : undefined;
  if (usage) values.set("stream_options", usage);
  if (previousId !== undefined && previousId !== readField(request, PREVIOUS)) {
    values.set(PREVIOUS, encoder.encode(JSON.stringify(previousId)));
  }
  return values.size === 0 ? bytes : withFields(request, values);
}

/** The JSON of a message in the list; nothing for what stands before it. */
function writePiece(
  message: Message,
  piece: Piece | undefined,
  format: WireFormat,
): Uint8Array<ArrayBuffer> | undefined {
  if (!piece) return encoder.encode(format.writeMessage(message));
  if (message === piece.message || !piece.bytes) return piece.bytes;
  // Only the text of a tool result ever gives way to another.
  const body = { bytes: piece.bytes, fields: objectFields(piece.bytes) };
  return withFields(body, new Map([[format.resultField, encoder.encode(JSON.stringify(message.content))]]));
}

function writeTools(
  { tools = [], format }: WireRequest,
  { edits, recall }: UpstreamPrompt,
): Uint8Array<ArrayBuffer> | undefined {
  const full = plannedTools(tools, recall);
  const shown = view({ messages: [], tools: full }, edits.filter(({ type }) => type === "compact")).tools;
  const isWhole = shown.every((tool, at) => tool === full[at]);
  if (isWhole && !recall) return undefined;
  const shownNow = new Map(full.map((tool, at) => [tool, shown[at] ?? tool]));
  const written = tools.map(({ definition, bytes }) => {
    const now = definition && shownNow.get(definition);
    if (!now || now === definition) return bytes;
    return encoder.encode(format.writeTool(now, readJsonAt(bytes, { start: 0, end: bytes.length })));
  });
  if (recall) written.push(encoder.encode(format.writeTool(shownNow.get(RECALL_TOOL) ?? RECALL_TOOL)));
  return joinArray(written);
}

const PREVIOUS = "previous_response_id";
const encoder = new TextEncoder();
