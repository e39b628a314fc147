import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { formatCount } from "@tare/server/internal/format";

/** In characters. */
const FIRST = 4_000;

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
          {`Show more: ${formatCount(length)} of ${formatCount(text.length)} characters`}
        </button>
      )}
    </div>
  );
}
