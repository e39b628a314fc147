import type { ComponentChildren, JSX } from "preact";

/** Strokes of icons, in a square of 16. */
const STROKES = {
  attach: "M11.7 7 7.2 11.5a2.1 2.1 0 0 1-3-3l5.1-5.1a1.4 1.4 0 0 1 2 2L6.5 10.2",
  chart: "M2.5 13.5h11M4.5 11V8M8 11V3.5M11.5 11V6",
  clock: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 1 0 0-11zM8 5v3.2l2.2 1.3",
  close: "M4 4l8 8M12 4l-8 8",
  delete: "M3 4.5h10M6.5 4.5v-2h3v2M4.4 4.5l.7 9h5.8l.7-9",
  down: "M8 3v9.5M4 8.5l4 4 4-4",
  edit: "M3 13l.7-3.1 6.8-6.8a1 1 0 0 1 1.4 0l1 1a1 1 0 0 1 0 1.4L6.1 12.3z",
  fork:
    "M4.5 5.5v5M4.5 2.5a1.5 1.5 0 1 0 0 3 1.5 1.5 0 1 0 0-3zM4.5 10.5a1.5 1.5 0 1 0 0 3 1.5 1.5 0 1 0 0-3z" +
    "M11.5 2.5a1.5 1.5 0 1 0 0 3 1.5 1.5 0 1 0 0-3zM11.5 5.5c0 3-5 2-6.6 4",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  model:
    "M4.5 4.5h7v7h-7zM6.5 2v2.5M9.5 2v2.5M6.5 11.5V14M9.5 11.5V14M2 6.5h2.5M2 9.5h2.5M11.5 6.5H14M11.5 9.5H14",
  more:
    "M3 8a.5.5 0 1 0 1 0 .5.5 0 1 0-1 0zM7.5 8a.5.5 0 1 0 1 0 .5.5 0 1 0-1 0zM12 8a.5.5 0 1 0 1 0 .5.5 0 1 0-1 0z",
  plus: "M8 3v10M3 8h10",
  redo: "M10.5 2.5l3 3-3 3M13 5.5H6.5a3.5 3.5 0 0 0 0 7H10",
  retry: "M13 3.5V7H9.5M12.7 6.8A5 5 0 1 0 12.6 10",
  send: "M8 13V3.5M4 7.5l4-4 4 4",
  share: "M8 10V2.5M5 5.5l3-3 3 3M3 9v4.5h10V9",
  stop: "M4.5 4.5h7v7h-7z",
  undo: "M5.5 2.5l-3 3 3 3M3 5.5h6.5a3.5 3.5 0 0 1 0 7H6",
} as const;

export type IconName = keyof typeof STROKES;

/** A decorative icon. */
export function Icon({ name }: { readonly name: IconName }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={STROKES[name]} />
    </svg>
  );
}

/** A quiet button with an icon and a name. */
export function IconButton({ icon, label, act, children }: {
  readonly icon: IconName;
  /** Accessible name, if it says more than the visible one. Default: the visible one. */
  readonly label?: string;
  readonly act: () => void;
  readonly children: ComponentChildren;
}): JSX.Element {
  return (
    <button type="button" class="quiet" aria-label={label} onClick={act}>
      <Icon name={icon} />
      {children}
    </button>
  );
}

/** Opens the list of sessions on a narrow screen, where it is a drawer. */
export function MenuButton(): JSX.Element {
  return (
    <button type="button" class="quiet menu" popovertarget="sidebar" aria-label="Sessions">
      <Icon name="menu" />
    </button>
  );
}
