import type { ComponentChildren, JSX } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";

/** Asks before something is done, over the page: Escape and "Cancel" leave it undone, and the focus goes back where it was. */
export function Dialog({ title, act, isFinal = false, does, close, children }: {
  readonly title: string;
  /** What the button that does it says. */
  readonly act: string;
  /** Whether that can't be taken back: then it isn't what Enter does. Default: it can. */
  readonly isFinal?: boolean;
  /** Does it, and tells what went wrong elsewhere. */
  readonly does: () => Promise<void>;
  readonly close: () => void;
  readonly children: ComponentChildren;
}): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  const [isBusy, setBusy] = useState(false);
  // Before anything can be typed: Escape is the dialog's from its beginning.
  useLayoutEffect(() => box.current?.showModal(), []);
  return (
    <dialog ref={box} aria-labelledby={id} onClose={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (isBusy) return;
          setBusy(true);
          does().then(() => box.current?.close());
        }}
      >
        <h2 id={id}>{title}</h2>
        {children}
        <div class="answers">
          <button type="submit" class={isFinal ? "stop" : "primary"}>{act}</button>
          <button type="button" autofocus={isFinal} onClick={() => box.current?.close()}>Cancel</button>
        </div>
      </form>
    </dialog>
  );
}
