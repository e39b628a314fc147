import { type CodePiece, highlightCode } from "@tare/server/internal/highlight";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

/** Time without a change until a growing text is highlighted, in milliseconds. */
const PAUSE = 150;

/** A text with its syntax in color, as soon as it doesn't change any more. */
export function Highlighted(
  { text, language }: { readonly text: string; readonly language: string },
): JSX.Element {
  const [done, setDone] = useState<{ readonly text: string; readonly pieces: readonly CodePiece[] }>();
  useEffect(() => {
    const highlight = () => setDone({ text, pieces: highlightCode(text, language) });
    const timer = setTimeout(highlight, done ? PAUSE : 0);
    return () => clearTimeout(timer);
  }, [text, language]);
  if (done?.text !== text) return <>{text}</>;
  return (
    <>
      {done.pieces.map(({ text, kind }, at) =>
        kind ? <span key={at} class={`code-${kind}`}>{text}</span> : text
      )}
    </>
  );
}
