import type { Content, ContentPart } from "@tare/messages";
import type { JSX, TargetedEvent } from "preact";
import { useRef, useState } from "preact/hooks";
import type { TurnLimits } from "../api/sessions.ts";
import { sentenceOf } from "./conversation.ts";

/** What the composer can do. */
export interface ComposerProps {
  /** Sends an input; false gives it back to be changed. */
  readonly send: (input: Content, budget?: TurnLimits) => Promise<boolean>;
  /** Whether a turn runs, so that an input steers it. Default: false. */
  readonly isRunning?: boolean;
  /** Cancels the turn. Default: it can't be. */
  readonly cancel?: () => void;
  /** Goes on with a turn that was cut off. Default: there is none. */
  readonly goOn?: (budget?: TurnLimits) => void;
}

/** A file that goes with the next input. */
interface Attached {
  readonly name: string;
  readonly part: ContentPart;
}

/** Where inputs are written: text, files by drag and drop or from a list, limits for the turn. */
export function Composer({ send, isRunning = false, cancel, goOn }: ComposerProps): JSX.Element {
  const [text, setText] = useState("");
  const [files, setFiles] = useState<readonly Attached[]>([]);
  const [limits, setLimits] = useState<LimitTexts>(NO_LIMITS);
  const [trouble, setTrouble] = useState<string>();
  const [isOver, setOver] = useState(false);
  const chooser = useRef<HTMLInputElement>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const isEmpty = text.trim() === "" && files.length === 0;

  const submit = async (event?: Event) => {
    event?.preventDefault();
    if (isEmpty) return;
    const parts: ContentPart[] = [...files.map(({ part }) => part)];
    if (text.trim() !== "") parts.push({ type: "text", text });
    setText("");
    setFiles([]);
    field.current?.focus();
    if (await send(files.length === 0 ? text : parts, limitsOf(limits))) return;
    setText(text);
    setFiles(files);
  };
  const attach = async (chosen: Iterable<File>) => {
    setTrouble(undefined);
    for (const file of chosen) {
      try {
        const part = await readFile(file);
        setFiles((files) => [...files, { name: file.name, part }]);
      } catch (error) {
        setTrouble(sentenceOf(error));
      }
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  };
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    attach(event.dataTransfer?.files ?? []);
  };
  const onPaste = (event: ClipboardEvent) => {
    const pasted = [...event.clipboardData?.files ?? []];
    if (pasted.length > 0) event.preventDefault();
    attach(pasted);
  };
  const onChoose = ({ currentTarget }: TargetedEvent<HTMLInputElement>) => {
    attach([...currentTarget.files ?? []]);
    currentTarget.value = "";
  };
  return (
    <form
      class={isOver ? "composer over" : "composer"}
      onSubmit={submit}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={onDrop}
    >
      {files.length > 0 && (
        <ul class="files" aria-label="Attached files">
          {files.map(({ name }, at) => (
            <li key={at}>
              <bdi>{name}</bdi>
              <button
                type="button"
                class="quiet"
                aria-label={`Take ${name} out`}
                onClick={() => setFiles(files.filter((_, other) => other !== at))}
              >
                ×
              </button>
            </li>
          ))}
        </ul>
      )}
      {trouble !== undefined && <p class="trouble" role="alert">{trouble}</p>}
      <label class="hidden" for="input">
        {isRunning ? "Say something to the working agent" : "Your message"}
      </label>
      <textarea
        id="input"
        ref={field}
        rows={1}
        dir="auto"
        placeholder={isRunning ? "Steer it: this is read before its next step" : "Write to the agent"}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={onKeyDown}
        onPaste={onPaste}
      />
      <div class="actions">
        <button type="button" class="quiet" onClick={() => chooser.current?.click()}>Attach</button>
        <input ref={chooser} type="file" multiple hidden aria-label="Files to attach" onChange={onChoose} />
        {!isRunning && <Limits texts={limits} change={setLimits} />}
        <span class="space" />
        {goOn && <button type="button" onClick={() => goOn(limitsOf(limits))}>Continue the turn</button>}
        {isRunning && <button type="button" class="stop" onClick={() => cancel?.()}>Stop</button>}
        <button type="submit" class="primary" disabled={isEmpty}>{isRunning ? "Steer" : "Send"}</button>
      </div>
    </form>
  );
}

/** Largest file in bytes: the server takes bodies of 10 MiB, and base64 makes a file a third larger. */
const MAX_BYTES = 7 * 2 ** 20;

/**
 * A file as a part of a message: pictures and recordings as such, text as text under its name, and anything else as a
 * file.
 *
 * @throws {RangeError} if it is too large.
 */
async function readFile(file: File): Promise<ContentPart> {
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

/** The limits as they were written. */
type LimitTexts = Readonly<Record<keyof TurnLimits, string>>;

/** No limit is written. */
const NO_LIMITS: LimitTexts = { maxSteps: "", maxTokens: "", maxUsd: "" };

const FIELDS: readonly { readonly name: keyof TurnLimits; readonly label: string }[] = [
  { name: "maxSteps", label: "Model calls" },
  { name: "maxTokens", label: "Tokens, read and written" },
  { name: "maxUsd", label: "US dollars" },
];

/** The limits that were written; nothing if none was. */
function limitsOf(texts: LimitTexts): TurnLimits | undefined {
  const given = FIELDS.filter(({ name }) => Number(texts[name]) > 0);
  if (given.length === 0) return undefined;
  return Object.fromEntries(given.map(({ name }) => [name, Number(texts[name])]));
}

/** What the next turn may take at most. */
function Limits(
  { texts, change }: { readonly texts: LimitTexts; readonly change: (texts: LimitTexts) => void },
): JSX.Element {
  const isLimited = limitsOf(texts) !== undefined;
  return (
    <details class="limits">
      <summary>{isLimited ? "Limited" : "Limits"}</summary>
      <div class="sheet">
        <p>The turn ends when it has used up one of these.</p>
        {FIELDS.map(({ name, label }) => (
          <label key={name}>
            <span>{label}</span>
            <input
              type="number"
              min="0"
              step={name === "maxUsd" ? "any" : 1}
              inputMode="decimal"
              value={texts[name]}
              onInput={(event) => change({ ...texts, [name]: event.currentTarget.value })}
            />
          </label>
        ))}
      </div>
    </details>
  );
}
