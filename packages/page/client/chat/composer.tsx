import type { Content, ContentPart } from "@tare/messages";
import { fenced, partName } from "@tare/server/internal/format";
import type { JSX, RefObject, TargetedEvent } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { api, errorMessage } from "../api/api.ts";
import type { TurnBudget } from "../api/sessions.ts";
import { Icon, IconButton } from "../parts/icon.tsx";
import { Trouble } from "../parts/trouble.tsx";

export interface ComposerProps {
  /** Sends a message; false returns it to the field. */
  readonly send: (input: Content, budget?: TurnBudget) => Promise<boolean>;
  /** Whether a turn is running, so that a message steers it. Default: false. */
  readonly isRunning?: boolean;
  /** Cancels the turn. Default: unavailable. */
  readonly cancel?: () => void;
  /** Whether the model accepts images. Default: unknown. */
  readonly supportsImages?: boolean | undefined;
  /** Continues an interrupted turn. Default: unavailable. */
  readonly onContinue?: (budget?: TurnBudget) => void;
  /** The last message, to be edited. Default: a new message. */
  readonly edits?: Content | undefined;
  readonly leave?: () => void;
  /** Starts editing the last message. Default: unavailable. */
  readonly edit?: () => void;
  /** A text for the field; each new object replaces the field's. Default: none. */
  readonly suggestion?: { readonly text: string } | undefined;
}

export function Composer(
  { send, isRunning = false, cancel, onContinue, supportsImages, edits, leave = () => {}, edit, suggestion }:
    ComposerProps,
): JSX.Element {
  const [text, setText] = useState("");
  const [files, setFiles] = useState<readonly Attached[]>([]);
  const [limits, setLimits] = useState<LimitTexts>(NO_LIMITS);
  const [trouble, setTrouble] = useState<string>();
  const [isOver, setOver] = useState(false);
  const chooser = useRef<HTMLInputElement>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const mentions = useMentions({ field, change: setText });
  const isEmpty = text.trim() === "" && files.length === 0;
  const put = (draft: { readonly text: string; readonly files: readonly Attached[] }) => {
    setText(draft.text);
    setFiles(draft.files);
    setTrouble(undefined);
  };
  // A layout effect runs before anything can be typed.
  useLayoutEffect(() => {
    if (edits === undefined) return;
    const draft = { text, files };
    put(takenApart(edits));
    field.current?.focus();
    return () => put(draft);
  }, [edits]);

  useLayoutEffect(() => {
    if (!suggestion) return;
    setText(suggestion.text);
    field.current?.focus();
  }, [suggestion]);

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
  const add = async (chosen: Iterable<File>) => {
    const troubles: string[] = [];
    let all = files;
    for (const file of chosen) {
      try {
        all = [...all, await attach(file, all)];
        setFiles(all);
      } catch (error) {
        troubles.push(errorMessage(error));
      }
    }
    setTrouble(troubles.length === 0 ? undefined : troubles.join(" "));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (mentions.onKeyDown(event) || event.isComposing) return;
    if (event.key === "Enter" && !event.shiftKey) submit(event);
    if (event.key === "Escape" && edits !== undefined) {
      event.stopPropagation();
      leave();
    }
    if (event.key === "ArrowUp" && isEmpty && edit) {
      event.preventDefault();
      edit();
    }
  };
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    add(event.dataTransfer?.files ?? []);
  };
  const onPaste = (event: ClipboardEvent) => {
    const pasted = [...event.clipboardData?.files ?? []];
    if (pasted.length > 0) event.preventDefault();
    add(pasted);
  };
  const onChoose = ({ currentTarget }: TargetedEvent<HTMLInputElement>) => {
    add([...currentTarget.files ?? []]);
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
      {edits !== undefined && (
        <p class="editing">
          The edited message starts a new session from before your last message. This session and the files
          stay unchanged.
          <button type="button" class="quiet" onClick={leave}>Cancel edit</button>
        </p>
      )}
      {files.length > 0 && (
        <ul class="files" aria-label="Attached files">
          {files.map(({ name, part }, at) => (
            <li key={at}>
              {part.type === "image_url" && part.image_url.url.startsWith("data:") && (
                <img src={part.image_url.url} alt="" />
              )}
              <bdi>{name}</bdi>
              <button
                type="button"
                class="quiet"
                aria-label={`Remove ${name}`}
                onClick={() => setFiles(files.filter((_, other) => other !== at))}
              >
                ×
              </button>
            </li>
          ))}
        </ul>
      )}
      <Trouble text={trouble} />
      {supportsImages === false && files.some(({ part }) => part.type === "image_url") && (
        <p class="error" role="status">
          This model is not known to support images; its provider may refuse the message.
        </p>
      )}
      {mentions.list}
      <label class="visually-hidden" for="input">
        {isRunning
          ? "Message to the running agent"
          : edits === undefined
          ? "Your message"
          : "Your last message, edited"}
      </label>
      <textarea
        id="input"
        ref={field}
        rows={1}
        dir="auto"
        placeholder={isRunning ? "Steer the agent: it reads this before its next step" : "Write to the agent"}
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          mentions.look();
        }}
        onKeyDown={onKeyDown}
        onPaste={onPaste}
        {...mentions.attributes}
      />
      <div class="toolbar">
        <IconButton icon="attach" act={() => chooser.current?.click()}>Attach</IconButton>
        <input ref={chooser} type="file" multiple hidden aria-label="Files to attach" onChange={onChoose} />
        {!isRunning && <Limits texts={limits} change={setLimits} />}
        <span class="spacer" />
        {onContinue && (
          <button type="button" onClick={() => onContinue(limitsOf(limits))}>Continue the turn</button>
        )}
        {isRunning && (
          <button type="button" class="danger" onClick={() => cancel?.()}>
            <Icon name="stop" />
            Stop
          </button>
        )}
        <button type="submit" class="primary" disabled={isEmpty}>
          <Icon name="send" />
          {isRunning ? "Steer" : "Send"}
        </button>
      </div>
    </form>
  );
}

type LimitTexts = Readonly<Record<keyof TurnBudget, string>>;

const NO_LIMITS: LimitTexts = { maxSteps: "", maxTokens: "", maxUsd: "" };

const FIELDS: readonly { readonly name: keyof TurnBudget; readonly label: string }[] = [
  { name: "maxSteps", label: "Model calls" },
  { name: "maxTokens", label: "Input and output tokens" },
  { name: "maxUsd", label: "US dollars" },
];

function limitsOf(texts: LimitTexts): TurnBudget | undefined {
  const given = FIELDS.filter(({ name }) => Number(texts[name]) > 0);
  if (given.length === 0) return undefined;
  return Object.fromEntries(given.map(({ name }) => [name, Number(texts[name])]));
}

function Limits(
  { texts, change }: { readonly texts: LimitTexts; readonly change: (texts: LimitTexts) => void },
): JSX.Element {
  const isLimited = limitsOf(texts) !== undefined;
  return (
    <details class="limits">
      <summary>{isLimited ? "Limited" : "Limits"}</summary>
      <div class="fields">
        <p>The turn ends when it reaches one of these limits.</p>
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

interface Attached {
  readonly name: string;
  readonly part: ContentPart;
}

/** Largest file, and all encoded attachments, in bytes: the server accepts bodies of 10 MiB, and base64 adds a third. */
const MAX_BYTES = 7 * 2 ** 20;
const MAX_SENT = 9.5 * 2 ** 20;

/** In bytes, before scaling. */
const MAX_IMAGE_BYTES = 40 * 2 ** 20;

/** Longest edge of an image in pixels: models use no more of a larger one. */
const MAX_EDGE = 2_000;

/** Returns a file as a content part, images scaled down. @throws {RangeError} if it is too large or not an image. */
async function attach(file: File, others: readonly Attached[]): Promise<Attached> {
  const { name } = file;
  const part = await partOf(file);
  const sent = [...others.map(({ part }) => part), part].reduce(
    (sum, one) => sum + JSON.stringify(one).length,
    0,
  );
  if (sent > MAX_SENT) {
    throw new RangeError(
      `Cannot attach ${name}: all attachments together would have ${
        megabytes(sent)
      } MB encoded. Attach at most ${megabytes(MAX_SENT)} MB.`,
    );
  }
  return { name, part };
}

/** Returns the draft of a message: its last text part, and the parts before it as attachments. */
function takenApart(content: Content): { readonly text: string; readonly files: readonly Attached[] } {
  if (typeof content === "string") return { text: content, files: [] };
  const last = content.at(-1);
  const text = last?.type === "text" ? last.text : "";
  const parts = last?.type === "text" ? content.slice(0, -1) : content;
  return { text, files: parts.map((part) => ({ name: nameOf(part), part })) };
}

function nameOf(part: ContentPart): string {
  if (part.type === "text") return part.text.split(/:?\n/, 1)[0]!.slice(0, 60);
  return part.type === "file" ? part.file.filename ?? "file" : partName(part);
}

function megabytes(bytes: number): string {
  return (bytes / 2 ** 20).toFixed(1);
}

function assertFits({ name, size }: File, most: number): void {
  if (size <= most) return;
  throw new RangeError(
    `Cannot attach ${name}: it has ${megabytes(size)} MB. Attach at most ${megabytes(most)} MB.`,
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
  if (text !== undefined) return { type: "text", text: `${name}:\n\n${fenced(text)}` };
  return { type: "file", file: { filename: name, file_data: await dataUrl(file) } };
}

async function fitted(file: File): Promise<File> {
  const { name, type } = file;
  assertFits(file, type === "image/gif" ? MAX_BYTES : MAX_IMAGE_BYTES);
  const image = await createImageBitmap(file).catch((cause) => {
    throw new RangeError(
      `Cannot attach ${name}: this browser can’t decode the image. Attach another format.`,
      { cause },
    );
  });
  const scale = MAX_EDGE / Math.max(image.width, image.height);
  if (type === "image/gif" || (scale >= 1 && file.size <= MAX_BYTES)) return file;
  const [width, height] = [image.width, image.height].map((edge) => Math.ceil(edge * Math.min(1, scale)));
  const canvas = new OffscreenCanvas(width!, height!);
  canvas.getContext("2d")?.drawImage(image, 0, 0, width!, height!);
  const smaller = new File([await canvas.convertToBlob({ type, quality: 0.9 })], name, { type });
  assertFits(smaller, MAX_BYTES);
  return smaller;
}

function asText(bytes: Uint8Array<ArrayBuffer>): string | undefined {
  if (bytes.includes(0)) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function dataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

const MOST = 8;

/** Debounce in milliseconds. */
const PAUSE = 100;

interface Mention {
  readonly from: number;
  readonly typed: string;
}

/** Completes workspace files after `@`: arrow keys select, Enter or Tab inserts, Escape closes. */
function useMentions(
  { field, change }: {
    readonly field: RefObject<HTMLTextAreaElement | null>;
    readonly change: (text: string) => void;
  },
): {
  readonly look: () => void;
  readonly onKeyDown: (event: KeyboardEvent) => boolean;
  readonly attributes: {
    readonly "aria-autocomplete": "list";
    readonly "aria-controls"?: string;
    readonly "aria-activedescendant"?: string;
    readonly onClick: () => void;
    readonly onBlur: () => void;
  };
  readonly list: JSX.Element | null;
} {
  const [mention, setMention] = useState<Mention>();
  const [files, setFiles] = useState<readonly string[]>([]);
  const [at, setAt] = useState(0);
  const id = useId();
  const typed = mention?.typed;
  useEffect(() => {
    setAt(0);
    if (typed === undefined) return setFiles([]);
    const stop = new AbortController();
    const read = async () => {
      const query = { search: typed, limit: MOST };
      setFiles((await api.json("GET /agent/files", { query, signal: stop.signal })).files);
    };
    // Without permission to list files the path is typed without completion.
    const timer = setTimeout(() => read().catch(() => stop.signal.aborted || setFiles([])), PAUSE);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [typed]);
  const look = () => {
    const { value = "", selectionStart: caret = 0 } = field.current ?? {};
    const [, typed] = /(?:^|\s)@([^\s@]*)$/.exec(value.slice(0, caret)) ?? [];
    setMention(typed === undefined ? undefined : { from: caret - typed.length, typed });
  };
  const choose = (path: string) => {
    const box = field.current;
    if (!box || !mention) return;
    const { from, typed } = mention;
    // After a folder, completion continues.
    const put = path.endsWith("/") ? path : `${path} `;
    // Synchronous, so that the next typed character is after it.
    box.focus();
    box.setRangeText(put, from, from + typed.length, "end");
    change(box.value);
    setMention(put === path ? { from, typed: path } : undefined);
  };
  const isOpen = mention !== undefined && files.length > 0;
  const onKeyDown = (event: KeyboardEvent): boolean => {
    if (!isOpen || event.isComposing) return false;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) setAt((at + step + files.length) % files.length);
    else if (event.key === "Enter" || event.key === "Tab") choose(files[at]!);
    else if (event.key === "Escape") setMention(undefined);
    else return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  };
  return {
    look,
    onKeyDown,
    attributes: {
      "aria-autocomplete": "list",
      onClick: look,
      onBlur: () => setMention(undefined),
      ...(isOpen && { "aria-controls": id, "aria-activedescendant": `${id}-${at}` }),
    },
    list: isOpen
      ? (
        <ul class="completions" role="listbox" id={id} aria-label="Files of the workspace">
          {files.map((file, place) => (
            <li
              key={file}
              role="option"
              id={`${id}-${place}`}
              aria-selected={place === at}
              onMouseDown={(event) => event.preventDefault()}
              onClick={() => choose(file)}
            >
              <bdi>{file}</bdi>
            </li>
          ))}
        </ul>
      )
      : null,
  };
}
