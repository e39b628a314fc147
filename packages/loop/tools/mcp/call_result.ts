import type { ToolOutput } from "@tare/messages";
import { isDeepStrictEqual } from "node:util";
import { sliceText } from "../result_text.ts";
import { asRecord } from "./as_record.ts";

/** Longest text of a result, in UTF-16 code units. What is longer than a prompt should hold is shortened there. */
const MAX_CHARS = 2 ** 20;

/**
 * What a model reads of a call's result. A tool's message holds text alone: of all else a line says what it was and how
 * large, and of what was too long a line says how much is missing. Structured content that a text repeats is left out.
 */
export function callResult(result: unknown): ToolOutput {
  const { content, structuredContent, isError } = asRecord(result) ?? {};
  const blocks = Array.isArray(content) ? content.map((block) => describe(asRecord(block) ?? {})) : [];
  if (structuredContent !== undefined && !repeats(content, structuredContent)) {
    blocks.push(`[structured content]\n${JSON.stringify(structuredContent)}`);
  }
  if (blocks.length === 0) blocks.push("[the tool gave an empty result]");
  const text = cut(clean(blocks.join("\n")));
  return isError === true ? { content: text, error: true } : text;
}

function describe(block: Readonly<Record<string, unknown>>): string {
  const { type, text, data, resource, uri, name, title, description, mimeType, size } = block;
  switch (type) {
    case "text":
      return typeof text === "string" ? text : "[a text that is none]";
    case "image":
    case "audio":
      return `[${type}, ${sizeOf(data, mimeType)}: left out, because a tool's result holds text alone]`;
    case "resource_link": {
      const about = [
        title ?? name,
        mimeType,
        typeof size === "number" ? `${size} bytes` : undefined,
        description,
      ];
      return `[link to resource ${uri}: ${about.filter((part) => part !== undefined).join(", ")}]`;
    }
    case "resource": {
      const { uri, text, blob, mimeType } = asRecord(resource) ?? {};
      if (typeof text === "string") return `[resource ${uri}]\n${text}`;
      return `[resource ${uri}, ${
        sizeOf(blob, mimeType)
      }: left out, because a tool's result holds text alone]`;
    }
    default:
      return `[${
        typeof type === "string" ? type : "content without a type"
      }: left out, because it isn't known here]`;
  }
}

function sizeOf(base64: unknown, mimeType: unknown): string {
  const bytes = typeof base64 === "string" ? Math.floor(base64.replace(/=+$/, "").length * 3 / 4) : 0;
  return `${typeof mimeType === "string" ? mimeType : "of no type"}, ${bytes.toLocaleString("en")} bytes`;
}

/** Whether one of the texts says the same: as JSON, or as the only value. */
function repeats(content: unknown, structured: unknown): boolean {
  if (!Array.isArray(content)) return false;
  const values = Object.values(asRecord(structured) ?? {});
  return content.some((block) => {
    const { text } = asRecord(block) ?? {};
    if (typeof text !== "string") return false;
    if (values.length === 1 && values[0] === text) return true;
    try {
      return isDeepStrictEqual(JSON.parse(text), structured);
    } catch {
      return false;
    }
  });
}

/** Providers refuse NUL and halves of surrogate pairs. */
function clean(text: string): string {
  return text.replaceAll("\0", "\uFFFD").toWellFormed();
}

function cut(text: string): string {
  if (text.length <= MAX_CHARS) return text;
  const left = text.length - MAX_CHARS;
  const head = sliceText(text, 0, MAX_CHARS / 2);
  const tail = sliceText(text, text.length - MAX_CHARS / 2, text.length);
  return `${head}\n[… ${left.toLocaleString("en")} characters left out: a result holds at most ${
    MAX_CHARS.toLocaleString("en")
  } …]\n${tail}`;
}
