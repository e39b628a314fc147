import type { ContentPart } from "@tare/messages";

/** Largest file in bytes: the server takes bodies of 10 MiB, and base64 makes a file a third larger. */
const MAX_BYTES = 7 * 2 ** 20;

/**
 * A file as a part of a message: pictures and recordings as such, text as text under its name, and anything else as a
 * file.
 *
 * @throws {RangeError} if it is too large.
 */
export async function readFile(file: File): Promise<ContentPart> {
  const { name, size, type } = file;
  if (size > MAX_BYTES) {
    const megabytes = (bytes: number) => (bytes / 2 ** 20).toFixed(1);
    throw new RangeError(
      `Cannot attach ${name}: it has ${megabytes(size)} MB, and ${megabytes(MAX_BYTES)} MB is the most.`,
    );
  }
  const bytes = new Uint8Array(await file.arrayBuffer());
  if (/^image\/(png|jpeg|gif|webp)$/.test(type)) {
    return { type: "image_url", image_url: { url: await dataUrl(file) } };
  }
  const format = /^audio\/(?:x-)?(wav|mpeg|mp3)$/.exec(type)?.[1];
  if (format) {
    const [, data = ""] = (await dataUrl(file)).split(",");
    return { type: "input_audio", input_audio: { data, format: format === "mpeg" ? "mp3" : format } };
  }
  const text = asText(bytes);
  if (text !== undefined) return { type: "text", text: `${name}:\n\n${fence(text)}` };
  return { type: "file", file: { filename: name, file_data: await dataUrl(file) } };
}

/** The bytes as UTF-8, if they are text. */
function asText(bytes: Uint8Array<ArrayBuffer>): string | undefined {
  if (bytes.includes(0)) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** A fence that is longer than any inside. */
function fence(text: string): string {
  const longest = Math.max(2, ...(text.match(/`{3,}/g) ?? []).map(({ length }) => length));
  const mark = "`".repeat(longest + 1);
  return `${mark}\n${text.replace(/\n?$/, "\n")}${mark}`;
}

function dataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
