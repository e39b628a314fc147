import type { Content, ContentPart } from "@tare/messages";

/** A file that goes with the next input. */
export interface Attached {
  readonly name: string;
  readonly part: ContentPart;
}

/** Largest file in bytes, and all together as they are sent: the server takes bodies of 10 MiB, and base64 makes a file a third larger. */
const MAX_BYTES = 7 * 2 ** 20;
const MAX_SENT = 9.5 * 2 ** 20;

/** Largest picture in bytes before it is made smaller. */
const MAX_PICTURE = 40 * 2 ** 20;

/** Longest edge of a picture in pixels: models are shown no more of a larger one, and it would be paid for. */
const MAX_EDGE = 2_000;

/**
 * A file that goes with those that are attached already: pictures and recordings as such, text as text under its name, and
 * anything else as a file. Large pictures are made smaller.
 *
 * @throws {RangeError} if it is too large, or no picture though it says so.
 */
export async function attach(file: File, others: readonly Attached[]): Promise<Attached> {
  const { name } = file;
  const part = await partOf(file);
  const sent = [...others.map(({ part }) => part), part].reduce(
    (sum, one) => sum + JSON.stringify(one).length,
    0,
  );
  if (sent > MAX_SENT) {
    throw new RangeError(
      `Cannot attach ${name}: with the others it is ${megabytes(sent)} MB as it is sent, and ${
        megabytes(MAX_SENT)
      } MB is the most.`,
    );
  }
  return { name, part };
}

/** An input as the composer has it: its last text to be written on, and what stands before that as it was attached. */
export function takenApart(content: Content): { readonly text: string; readonly files: readonly Attached[] } {
  if (typeof content === "string") return { text: content, files: [] };
  const last = content.at(-1);
  const text = last?.type === "text" ? last.text : "";
  const parts = last?.type === "text" ? content.slice(0, -1) : content;
  return { text, files: parts.map((part) => ({ name: nameOf(part), part })) };
}

function nameOf(part: ContentPart): string {
  switch (part.type) {
    case "text":
      return part.text.split(/:?\n/, 1)[0]!.slice(0, 60);
    case "file":
      return part.file.filename ?? "file";
    case "image_url":
      return "picture";
    case "input_audio":
      return "recording";
    case "refusal":
      return "text";
  }
}

function megabytes(bytes: number): string {
  return (bytes / 2 ** 20).toFixed(1);
}

/** @throws {RangeError} */
function assertFits({ name, size }: File, most: number): void {
  if (size <= most) return;
  throw new RangeError(
    `Cannot attach ${name}: it has ${megabytes(size)} MB, and ${megabytes(most)} MB is the most.`,
  );
}

async function partOf(file: File): Promise<ContentPart> {
  const { name, type } = file;
  if (/^image\/(png|jpeg|gif|webp)$/.test(type)) {
    return { type: "image_url", image_url: { url: await dataUrl(await fitted(file)) } };
  }
  assertFits(file, MAX_BYTES);
  const bytes = new Uint8Array(await file.arrayBuffer());
  const format = /^audio\/(?:x-)?(wav|mpeg|mp3)$/.exec(type)?.[1];
  if (format) {
    const [, data = ""] = (await dataUrl(file)).split(",");
    return { type: "input_audio", input_audio: { data, format: format === "mpeg" ? "mp3" : format } };
  }
  const text = asText(bytes);
  if (text !== undefined) return { type: "text", text: `${name}:\n\n${fence(text)}` };
  return { type: "file", file: { filename: name, file_data: await dataUrl(file) } };
}

/** The picture, no larger than models are shown it. Of a moving one that is left to whoever sends it. */
async function fitted(file: File): Promise<File> {
  const { name, type } = file;
  assertFits(file, type === "image/gif" ? MAX_BYTES : MAX_PICTURE);
  const picture = await createImageBitmap(file).catch((cause) => {
    throw new RangeError(`Cannot attach ${name}: this browser can’t read it as a picture.`, { cause });
  });
  const scale = MAX_EDGE / Math.max(picture.width, picture.height);
  if (type === "image/gif" || (scale >= 1 && file.size <= MAX_BYTES)) return file;
  const [width, height] = [picture.width, picture.height].map((edge) => Math.ceil(edge * Math.min(1, scale)));
  const canvas = new OffscreenCanvas(width!, height!);
  canvas.getContext("2d")?.drawImage(picture, 0, 0, width!, height!);
  const smaller = new File([await canvas.convertToBlob({ type, quality: 0.9 })], name, { type });
  assertFits(smaller, MAX_BYTES);
  return smaller;
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
