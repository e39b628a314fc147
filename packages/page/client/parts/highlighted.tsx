import { highlightCode } from "@tare/server/internal/highlight";
import { type ComponentChildren, Fragment, type JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

/** Time without a change until a growing text is highlighted, in milliseconds. */
const PAUSE = 150;

/** A text with its syntax in color, as soon as it doesn't change any more. */
export function Highlighted(
  { text, language }: { readonly text: string; readonly language: string },
): JSX.Element {
  const [done, setDone] = useState<{ readonly text: string; readonly parts: ComponentChildren }>();
  useEffect(() => {
    const timer = setTimeout(() => setDone({ text, parts: highlight(text, language) }), done ? PAUSE : 0);
    return () => clearTimeout(timer);
  }, [text, language]);
  return <>{done?.text === text ? done.parts : text}</>;
}

function highlight(text: string, language: string): ComponentChildren {
  return highlightCode(text, language).map(({ text, kind }, at) =>
    kind ? <span key={at} class={`code-${kind}`}>{text}</span> : <Fragment key={at}>{text}</Fragment>
  );
}
