import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { formatCount } from "@tare/server/internal/format";
import { Highlighted } from "./highlighted.tsx";

/** In characters. */
const FIRST = 4_000;

export function Clip(
  { text, label = "Text", language }: {
    readonly text: string;
    readonly label?: string;
    /** Language to highlight, such as `ts`. Default: none. */
    readonly language?: string | undefined;
  },
): JSX.Element {
  const [length, setLength] = useState(FIRST);
  const isShort = text.length <= length;
  const visible = isShort ? text : text.slice(0, length);
  return (
    <div class="clip">
      <pre
        tabIndex={0}
        role="group"
        aria-label={label}
        dir="auto"
      >{language === undefined ? visible : <Highlighted text={visible} language={language} />}</pre>
      {!isShort && (
        <button type="button" class="quiet" onClick={() => setLength(length * 16)}>
          {`Show more: ${formatCount(length)} of ${formatCount(text.length)} characters`}
        </button>
      )}
    </div>
  );
}
