import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { errorMessage } from "../api/api.ts";
import { listen } from "../talk/heard.ts";

/** What was read for a view, and what went wrong with it. */
export interface Loaded<T> {
  readonly value: T | undefined;
  readonly trouble: string | undefined;
  /** Reads it again. */
  readonly reload: () => Promise<void>;
}

/** How often what belongs to no session is read again while somebody looks, in milliseconds. */
const EVERY = 15_000;

/** Loads the data of a view when it opens and when its session changes; without a session, periodically. */
export function useLoaded<T>(read: () => Promise<T>, sessionId?: string): Loaded<T> {
  const [state, setState] = useState<Pick<Loaded<T>, "value" | "trouble">>({
    value: undefined,
    trouble: undefined,
  });
  const reads = useRef({ begun: 0, shown: 0 });
  const reload = useCallback(async () => {
    const begun = ++reads.current.begun;
    const answer = await read().then(
      (value) => ({ value, trouble: undefined }),
      (error) => ({ trouble: errorMessage(error) }),
    );
    // One that was begun later may have been faster.
    if (begun < reads.current.shown) return;
    reads.current.shown = begun;
    setState((before) => ({ ...before, ...answer }));
  }, []);
  useEffect(() => {
    reload();
    if (sessionId === undefined) {
      const timer = setInterval(() => document.visibilityState === "visible" && reload(), EVERY);
      return () => clearInterval(timer);
    }
    let last: string | undefined;
    return listen(sessionId, ({ mark }) => {
      // The first time too: something may have happened since the view was read.
      if (last !== mark) reload();
      last = mark;
    });
  }, []);
  return { ...state, reload };
}
