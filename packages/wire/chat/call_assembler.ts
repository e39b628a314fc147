import type { FunctionToolCall } from "@tare/messages";
import { asRecord, type JsonRecord } from "../json_record.ts";
import { MAX_CALLS, ReplyTooLong } from "../reply_limits.ts";
import { mergeDelta, withoutNulls } from "./merge_delta.ts";
import type { ModelEvent } from "@tare/messages";

type CallDelta = Extract<ModelEvent, { type: "tool_call_delta" }>;

interface Piece {
  readonly index: number | undefined;
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
  /** True if `arguments` came as an object, which is always whole. */
  readonly isWhole: boolean;
  readonly extra: JsonRecord;
  readonly functionExtra: JsonRecord;
}

interface PartialCall {
  readonly index: number;
  id: string;
  name: string;
  arguments: string;
  extra: JsonRecord;
  functionExtra: JsonRecord;
  /** Number of the chunk that its newest piece came in. */
  chunk: number;
}

/**
 * Puts tool calls together from the pieces of a stream. By the book, each piece has the index of its call, the first
 * also id and name. In the wild, index and id are missing, shared or repeated, names are split or repeated, and
 * whole calls come at once with their arguments as an object.
 */
export class CallAssembler {
  readonly #calls: PartialCall[] = [];
  readonly #byIndex = new Map<number, PartialCall>();
  /** The first call of each id. */
  readonly #byId = new Map<string, PartialCall>();
  #chunk = 0;

  /** Takes the `tool_calls` of one chunk. @throws {ReplyTooLong} with more than {@linkcode MAX_CALLS}. */
  read(pieces: unknown): CallDelta[] {
    this.#chunk++;
    const list = Array.isArray(pieces) ? pieces : [pieces];
    return list.map(asPiece).filter((piece) => piece !== undefined).map((piece) => this.#add(piece));
  }

  /** The name of a call as far as it has come, by the index in its deltas. */
  nameOf(index: number): string | undefined {
    return this.#calls[index]?.name;
  }

  /** The whole calls, with ids that are not empty, unique, and not among those taken. */
  finish(taken: ReadonlySet<string>): FunctionToolCall[] {
    const used = new Set(taken);
    return this.#calls
      .filter((call) => call.id || call.name || call.arguments)
      .map((call) => {
        const id = freeId(call.id, used);
        used.add(id);
        return {
          id,
          type: "function",
          // Providers parse the arguments that are passed back to them.
          function: {
            name: call.name,
            arguments: call.arguments.trim() || "{}",
            ...withoutNulls(call.functionExtra),
          },
          ...withoutNulls(call.extra),
        };
      });
  }

  #add(piece: Piece): CallDelta {
    let call = this.#find(piece);
    if (!call || startsAnew(piece, call, this.#chunk)) {
      const index = this.#calls.length;
      if (index === MAX_CALLS) throw new ReplyTooLong(`it makes more than ${MAX_CALLS} calls of tools`);
      call = { index, id: "", name: "", arguments: "", extra: {}, functionExtra: {}, chunk: this.#chunk };
      this.#calls.push(call);
      if (piece.index !== undefined) this.#byIndex.set(piece.index, call);
    }
    call.chunk = this.#chunk;
    call.id ||= piece.id;
    if (call.id && !this.#byId.has(call.id)) this.#byId.set(call.id, call);
    addName(call, piece);
    addArguments(call, piece);
    call.extra = mergeDelta(call.extra, piece.extra);
    call.functionExtra = mergeDelta(call.functionExtra, piece.functionExtra);
    return {
      type: "tool_call_delta",
      index: call.index,
      ...(piece.id && { id: piece.id }),
      ...(piece.name && { name: piece.name }),
      ...(piece.arguments && { arguments: piece.arguments }),
    };
  }

  #find({ index, id, name }: Piece): PartialCall | undefined {
    const byId = id ? this.#byId.get(id) : undefined;
    // Different calls may share an id; a piece with a name may be the first of its call.
    if (index !== undefined) return this.#byIndex.get(index) ?? (name ? undefined : byId);
    return byId ?? this.#calls.at(-1);
  }
}

/** Whether a piece that seems to continue a call is in truth the first of another. Only a piece with a name can be. */
function startsAnew(piece: Piece, call: PartialCall, chunk: number): boolean {
  if (!piece.name) return false;
  if (call.chunk === chunk) {
    const same = piece.id !== "" && piece.id === call.id && piece.name === call.name;
    return !same || isJsonObject(call.arguments);
  }
  if (piece.id && call.id) return piece.id !== call.id;
  return (piece.arguments.trimStart().startsWith("{") || piece.name !== call.name) &&
    isJsonObject(call.arguments);
}

function addName(call: PartialCall, { name }: Piece): void {
  // Repeated or grown names replace, split ones are joined.
  if (name.startsWith(call.name)) call.name = name;
  else if (!call.arguments) call.name += name;
}

function addArguments(call: PartialCall, piece: Piece): void {
  if (piece.isWhole) call.arguments = piece.arguments;
  // Some servers open each call with empty arguments, although more follow.
  else if (call.arguments === "{}" && piece.arguments.trim()) call.arguments = piece.arguments;
  // Some servers send the whole call once more at its end.
  else if (piece.arguments !== call.arguments || !isJsonObject(call.arguments)) {
    call.arguments += piece.arguments;
  }
}

function asPiece(value: unknown): Piece | undefined {
  const piece = asRecord(value);
  if (!piece) return undefined;
  const { index, id, type: _, function: inner, ...extra } = piece;
  const { name, arguments: text, ...functionExtra } = asRecord(inner) ?? {};
  const isWhole = typeof text === "object" && text !== null;
  return {
    index: typeof index === "number" ? index : undefined,
    id: typeof id === "string" ? id : "",
    name: typeof name === "string" ? name : "",
    arguments: isWhole ? JSON.stringify(text) : typeof text === "string" ? text : "",
    isWhole,
    extra,
    functionExtra,
  };
}

function isJsonObject(text: string): boolean {
  try {
    return asRecord(JSON.parse(text)) !== undefined;
  } catch {
    return false;
  }
}

function freeId(id: string, used: ReadonlySet<string>): string {
  if (id && !used.has(id)) return id;
  let number = used.size + 1;
  while (used.has(`call_${number}`)) number++;
  return `call_${number}`;
}
