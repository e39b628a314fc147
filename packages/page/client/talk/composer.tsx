import type { Content, ContentPart } from "@tare/messages";
import type { JSX, TargetedEvent } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { TurnLimits } from "../api/sessions.ts";
import { attach, type Attached, takenApart } from "./attachments.ts";
import { sentenceOf } from "./conversation.ts";
import { useMentions } from "./mentions.tsx";

/** What the composer can do. */
export interface ComposerProps {
  /** Sends an input; false gives it back to be changed. */
  readonly send: (input: Content, budget?: TurnLimits) => Promise<boolean>;
  /** Whether a turn runs, so that an input steers it. Default: false. */
  readonly isRunning?: boolean;
  /** Cancels the turn. Default: it can't be. */
  readonly cancel?: () => void;
  /** Whether the model looks at pictures, as far as that is known. Default: nobody knows of any. */
  readonly seesPictures?: boolean | undefined;
  /** Goes on with a turn that was cut off. Default: there is none. */
  readonly goOn?: (budget?: TurnLimits) => void;
  /** What was said last, to be said otherwise. Default: something new is written. */
  readonly edits?: Content | undefined;
  /** Leaves that as it was said. */
  readonly leave?: () => void;
  /** Begins with that. Default: it can't be. */
  readonly edit?: () => void;
}

/** Where inputs are written: text, files by drag and drop or from a list, limits for the turn. */
export function Composer(
  { send, isRunning = false, cancel, goOn, seesPictures, edits, leave = () => {}, edit }: ComposerProps,
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
  // Before anything can be typed.
  useLayoutEffect(() => {
    if (edits === undefined) return;
    const draft = { text, files };
    put(takenApart(edits));
    field.current?.focus();
    return () => put(draft);
  }, [edits]);

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
        troubles.push(sentenceOf(error));
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
        <p class="edits">
          What you send goes on from before your last message, in a session of its own. This one stays as it
          is, and so do files.
          <button type="button" class="quiet" onClick={leave}>Leave it</button>
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
      {seesPictures === false && files.some(({ part }) => part.type === "image_url") && (
        <p class="trouble" role="status">
          It isn’t known that this model looks at pictures: its provider may refuse the message.
        </p>
      )}
      {mentions.list}
      <label class="hidden" for="input">
        {isRunning
          ? "Say something to the working agent"
          : edits === undefined
          ? "Your message"
          : "Your last message, otherwise"}
      </label>
      <textarea
        id="input"
        ref={field}
        rows={1}
        dir="auto"
        placeholder={isRunning ? "Steer it: this is read before its next step" : "Write to the agent"}
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          mentions.look();
        }}
        onKeyDown={onKeyDown}
        onPaste={onPaste}
        {...mentions.attributes}
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
