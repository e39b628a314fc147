import type { Content, ContentPart } from "./message.ts";

type MediaKind = "image" | "audio" | "video" | "document";

/** Media block types of supported protocols and frameworks, with the kind of blocks without a media type. */
const MEDIA_TYPES: readonly (readonly [MediaKind, string])[] = [
  // Chat completions and servers that extend them; Responses; Messages; models of the AI SDK 5 to 7 and
  // Mastra.
  ["image", "image_url input_image computer_screenshot image_generation_call image"],
  ["image", "image-data image-url image-file-id image-file-reference"],
  ["audio", "input_audio audio_url"],
  ["video", "input_video video_url"],
  ["document", "document_url file input_file document container_upload"],
  ["document", "media file-data file-url file-id file-reference reasoning-file"],
  // Standard blocks of LangChain; outputs of OpenAI Agents have the names above.
  ["audio", "audio"],
  ["video", "video"],
  ["document", "text-plain"],
  // MCP.
  ["document", "resource resource_link"],
];

function kindOf(type: unknown): MediaKind | undefined {
  return MEDIA_TYPES.find(([, types]) => typeof type === "string" && types.split(" ").includes(type))?.[0];
}

/** Types of blocks that contain only `text`. */
const TEXT_TYPE = /(?:^|_)text$|^text-plain$/;

/** Fields without data or address. */
const DESCRIPTION =
  /^(?:type|source_type|media_?type|mime_?type|format|detail|filename|name|title|description|context|transcript|providerOptions)$/i;

/** Fields with data of any length. */
const DATA_FIELD = /^(?:data|base64|blob|file_?data)$/i;

/** Shortest data in other fields, in UTF-16 code units. */
const SHORTEST_DATA = 256;

/** Deepest search for data. */
const MAX_DEPTH = 8;

/**
 * Returns the chat content parts of a block of any supported protocol or framework: text, media, or
 * structured data as its JSON text, with binary data inside as media parts. At least one part.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { partsOfBlock } from "@tare/messages";
 *
 * const block = { type: "image-data", data: "iVBORw0KGgo=", mediaType: "image/png" };
 * const url = "data:image/png;base64,iVBORw0KGgo=";
 * assertEquals(partsOfBlock(block), [{ type: "image_url", image_url: { url } }]);
 * assertEquals(partsOfBlock({ type: "custom", kind: "a.b" }), [{ type: "text", text: '{"type":"custom","kind":"a.b"}' }]);
 * ```
 */
export function partsOfBlock(block: unknown): readonly ContentPart[] {
  if (typeof block === "string") return [{ type: "text", text: block }];
  if (typeof block !== "object" || block === null) return [{ type: "text", text: String(block) }];
  const fields = block as Fields;
  const { type, text } = fields;
  if (typeof text === "string" && typeof type === "string" && TEXT_TYPE.test(type)) {
    return [{ type: "text", text }];
  }
  if (isChatPart(fields)) return [block as ContentPart];
  const kind = kindOf(type);
  return kind ? readMedia(fields, kind) : readData(fields);
}

/** Returns whether a part is media. */
export function isMedia({ type }: ContentPart): boolean {
  return type !== "text" && type !== "refusal";
}

/** Returns whether content has media parts. */
export function holdsMedia(content: Content | null | undefined): boolean {
  return Array.isArray(content) && (content as readonly ContentPart[]).some(isMedia);
}

type Fields = Readonly<Record<string, unknown>>;

function isChatPart(block: Fields): boolean {
  const { type } = block;
  if (type === "refusal") return typeof block.refusal === "string";
  const { url, data, file_data, file_id } = Object(block[type as string]) as Fields;
  const [own] = type === "input_audio" ? [data] : type === "file" ? [file_data ?? file_id] : [url];
  return typeof own === "string" && CHAT_MEDIA.test(type as string);
}

const CHAT_MEDIA = /^(?:image_url|input_audio|video_url|file)$/;

interface Payload {
  /** A data URL, an address or an id. */
  readonly url: string;
  readonly isData: boolean;
}

function readMedia(block: Fields, kind: MediaKind): readonly ContentPart[] {
  const payload = findPayload(block, () => mediaTypeOf(block, kind));
  if (!payload?.isData) {
    const ownText = readText(block);
    if (ownText) return ownText;
  }
  return [mediaPart(payload ?? { url: "", isData: false }, block, kind)];
}

/** Returns the text of a document, if any. */
function readText(block: Fields): readonly ContentPart[] | undefined {
  for (const holder of [block.source, block.data, block.file, block.resource, block]) {
    const { type, text, data, content } = Object(holder) as Fields;
    const ownText = typeof text === "string"
      ? text
      : type === "text"
      ? data
      : type === "content"
      ? content
      : undefined;
    if (typeof ownText === "string") return [{ type: "text", text: ownText }];
    if (Array.isArray(ownText) && ownText.length > 0) return ownText.flatMap(partsOfBlock);
  }
  return undefined;
}

/** Returns structured data as JSON text, and its binary data as parts. */
function readData(block: Fields): readonly ContentPart[] {
  const found: ContentPart[] = [];
  const take = (holder: unknown, value: unknown): boolean => {
    const fields = Object(holder) as Fields;
    const payload = payloadIn(value, () => mediaTypeOf(fields, "document"));
    if (!payload?.isData) return false;
    found.push(mediaPart(payload, fields, kindOf(fields.type) ?? "document"));
    return true;
  };
  // Some byte classes define `toJSON`, so the raw value is read from its holder.
  const text = JSON.stringify(block, function (this: unknown, name, value: unknown) {
    const raw = (Object(this) as Fields)[name];
    return take(this, raw) ? "" : value;
  });
  return [{ type: "text", text }, ...found];
}

function mediaPart({ url, isData }: Payload, block: Fields, kind: MediaKind): ContentPart {
  const { detail, filename } = block;
  const type = isData ? url.slice("data:".length, url.search(/[;,]/)) : mediaTypeOf(block, kind);
  const [main, format = ""] = type.split("/");
  switch (main === "image" || main === "audio" || main === "video" ? main : kind) {
    case "image": {
      const given = (Object(block.image_url) as Fields).detail ?? detail;
      return { type: "image_url", image_url: { url, ...(typeof given === "string" && { detail: given }) } };
    }
    case "audio":
      return { type: "input_audio", input_audio: { data: url, format } };
    case "video":
      return { type: "video_url", video_url: { url } };
    default:
      return {
        type: "file",
        file: {
          ...(isData ? { file_data: url } : { file_id: url }),
          ...(typeof filename === "string" && { filename }),
        },
      };
  }
}

function mediaTypeOf(block: Fields, kind: MediaKind): string {
  const inside = [block, ...Object.values(block)].map((one) => Object(one) as Fields);
  for (const { mediaType, media_type, mimeType, mime_type, format } of inside) {
    const stated = [mediaType, media_type, mimeType, mime_type].find((one) => typeof one === "string");
    if (typeof stated === "string" && stated.includes("/")) return stated;
    if (typeof format === "string" && kind === "audio") return `audio/${format}`;
  }
  return kind === "document" ? "application/octet-stream" : `${kind}/*`;
}

/** Returns the first data in a block, or else the first address or id. */
function findPayload(value: unknown, mediaType: () => string, depth = 0): Payload | undefined {
  const own = payloadIn(value, mediaType);
  if (own || typeof value !== "object" || value === null || depth > MAX_DEPTH) return own;
  let address: Payload | undefined;
  for (const [name, field] of Object.entries(value)) {
    if (DESCRIPTION.test(name) || (name === "text" && typeof field === "string")) continue;
    const isText = (value as Fields).type === "text";
    const found = typeof field === "string" && DATA_FIELD.test(name) && !isText
      ? payloadIn(field, mediaType, 0)
      : findPayload(field, mediaType, depth + 1);
    if (found?.isData) return found;
    address ??= found;
  }
  return address;
}

function payloadIn(value: unknown, mediaType: () => string, shortest = SHORTEST_DATA): Payload | undefined {
  if (value instanceof ArrayBuffer) return payloadIn(new Uint8Array(value), mediaType);
  if (ArrayBuffer.isView(value)) {
    const bytes = new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
    return { url: dataUrl(base64Of(bytes), mediaType()), isData: true };
  }
  if (value instanceof URL) return payloadIn(value.href, mediaType);
  if (typeof value !== "string" || value === "") return undefined;
  if (isDataUrl(value)) return { url: value, isData: true };
  if (value.length >= shortest && BASE64.test(value)) {
    return { url: dataUrl(value, mediaType()), isData: true };
  }
  return { url: value, isData: false };
}

const BASE64 = /^[A-Za-z0-9+/_\-\r\n]+={0,2}\s*$/;

function isDataUrl(text: string): boolean {
  return text.startsWith("data:") && /^data:[^,\s]{0,200},/.test(text);
}

function dataUrl(base64: string, mediaType: string): string {
  return `data:${mediaType};base64,${base64}`;
}

/** Bytes converted at once, each as an argument of a call. */
const CHUNK = 0x8000;

function base64Of(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += CHUNK) {
    text += String.fromCharCode(...bytes.subarray(at, at + CHUNK));
  }
  return btoa(text);
}
