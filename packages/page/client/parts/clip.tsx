import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { formatCount } from "@tare/server/internal/format";

/** Characters of a long text that are shown at first; each wish for more shows sixteen times as many. */
const FIRST = 4_000;

/** A text as it is, in a box that scrolls; of a long one the beginning, until more is asked for. */
export function Clip(
  { text, label = "Text" }: { readonly text: string; readonly label?: string },
): JSX.Element {
  const [length, setLength] = useState(FIRST);
  const isShort = text.length <= length;
  return (
    <div class="clip">
      <pre
        tabIndex={0}
        role="group"
        aria-label={label}
        dir="auto"
      >{isShort ? text : text.slice(0, length)}</pre>
      {!isShort && (
        <button type="button" class="quiet" onClick={() => setLength(length * 16)}>
          {`Show more: ${formatCount(length)} of ${formatCount(text.length)} characters are shown`}
        </button>
      )}
    </div>
  );
}
