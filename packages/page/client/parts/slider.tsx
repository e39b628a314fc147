import type { ComponentChildren, JSX } from "preact";

export interface SliderProps {
  readonly label: string;
  readonly length: number;
  readonly at: number;
  readonly choose: (at: number) => void;
  readonly text: string;
  readonly find: (x: number, y: number) => number | undefined;
  readonly children: ComponentChildren;
}

const PAGE = 10;

/** A graphic with one selected item: arrow keys, Home, End and click. It has the ARIA role `slider`. */
export function Slider({ label, length, at, choose, text, find, children }: SliderProps): JSX.Element {
  const go = (to: number) => choose(Math.max(0, Math.min(length - 1, to)));
  const onKeyDown = (event: KeyboardEvent) => {
    const steps: Readonly<Record<string, number>> = {
      ArrowLeft: at - 1,
      ArrowDown: at - 1,
      ArrowRight: at + 1,
      ArrowUp: at + 1,
      PageUp: at + PAGE,
      PageDown: at - PAGE,
      Home: 0,
      End: length - 1,
    };
    const to = steps[event.key];
    if (to === undefined) return;
    event.preventDefault();
    go(to);
  };
  const onClick = (event: MouseEvent & { readonly currentTarget: HTMLElement }) => {
    const { left, top } = event.currentTarget.getBoundingClientRect();
    const found = find(event.clientX - left, event.clientY - top);
    if (found !== undefined) go(found);
  };
  return (
    <div class="graphic" role="group" aria-label={`${label}, scrollable`}>
      <div
        class="slider"
        role="slider"
        tabIndex={0}
        aria-label={label}
        aria-valuemin={1}
        aria-valuemax={Math.max(1, length)}
        aria-valuenow={at + 1}
        aria-valuetext={text}
        onKeyDown={onKeyDown}
        onClick={onClick}
      >
        {children}
      </div>
    </div>
  );
}
