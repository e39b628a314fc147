import type { Content, ContentPart } from "@tare/messages";
import type { JSX, TargetedEvent } from "preact";
import { useRef, useState } from "preact/hooks";
import type { TurnLimits } from "../api/sessions.ts";
import { readFile } from "./attach.ts";
import { sentenceOf } from "./conversation.ts";
import { Limits, limitsOf, type LimitTexts, NO_LIMITS } from "./limits.tsx";

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
