import type { JSX, RefObject } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import { api } from "../api/api.ts";

/** Files that are offered at a time. */
const MOST = 8;

/** How long one waits for the end of a name that is being typed, in milliseconds. */
const PAUSE = 100;

/** What is being written of a file: an `@`, and a part of its path. */
interface Mention {
  /** Where that part begins. */
  readonly from: number;
  readonly asked: string;
}

/** Offers files of the workspace to whoever writes an `@`: arrow keys choose, Enter or Tab puts one in, Escape leaves. */
export function useMentions(
  { field, change }: {
    readonly field: RefObject<HTMLTextAreaElement | null>;
    /** Puts this text there. */
    readonly change: (text: string) => void;
  },
): {
  /** Looks at what is written. */
  readonly look: () => void;
  /** Whether a key was for the offer. */
  readonly onKeyDown: (event: KeyboardEvent) => boolean;
  /** What the field says of the offer, and tells it. */
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
  const asked = mention?.asked;
  useEffect(() => {
    setAt(0);
    if (asked === undefined) return setFiles([]);
    const stop = new AbortController();
    const read = async () => {
      const query = { search: asked, limit: MOST };
      setFiles((await api.json("GET /v1/agent/files", { query, signal: stop.signal })).files);
    };
    // Whoever may not list files writes the path himself.
    const timer = setTimeout(() => read().catch(() => setFiles([])), PAUSE);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [asked]);
  const look = () => {
    const { value = "", selectionStart: caret = 0 } = field.current ?? {};
    const [, asked] = /(?:^|\s)@([^\s@]*)$/.exec(value.slice(0, caret)) ?? [];
    setMention(asked === undefined ? undefined : { from: caret - asked.length, asked });
  };
  const choose = (path: string) => {
    const box = field.current;
    if (!box || !mention) return;
    const { from, asked } = mention;
    // In a folder one goes on.
    const put = path.endsWith("/") ? path : `${path} `;
    change(box.value.slice(0, from) + put + box.value.slice(from + asked.length));
    setMention(put === path ? { from, asked: path } : undefined);
    requestAnimationFrame(() => {
      box.focus();
      box.setSelectionRange(from + put.length, from + put.length);
    });
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
        <ul class="offer" role="listbox" id={id} aria-label="Files of the workspace">
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
