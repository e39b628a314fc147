import { useCallback, useEffect, useState } from "preact/hooks";
import { messageOf } from "../talk/conversation.ts";

/** What was read for a view, and what went wrong with it. */
export interface Loaded<T> {
  readonly value: T | undefined;
  readonly trouble: string | undefined;
  /** Reads it again. */
  readonly reload: () => Promise<void>;
}

/** How often a view is read again while somebody looks, in milliseconds. */
const EVERY = 4_000;

/** Reads what a view shows, when it is opened and now and then while it is looked at. */
export function useLoaded<T>(read: () => Promise<T>): Loaded<T> {
  const [state, setState] = useState<Pick<Loaded<T>, "value" | "trouble">>({
    value: undefined,
    trouble: undefined,
  });
  const reload = useCallback(async () => {
    try {
      setState({ value: await read(), trouble: undefined });
    } catch (error) {
      setState(({ value }) => ({ value, trouble: messageOf(error) }));
    }
  }, []);
  useEffect(() => {
    reload();
    const timer = setInterval(() => document.visibilityState === "visible" && reload(), EVERY);
    return () => clearInterval(timer);
  }, []);
  return { ...state, reload };
}
