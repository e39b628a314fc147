import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { errorMessage } from "../api/api.ts";
import { listen } from "../chat/session_updates.ts";

export interface Loaded<T> {
  readonly value: T | undefined;
  readonly trouble: string | undefined;
  readonly reload: () => Promise<void>;
}

/** Refresh interval in milliseconds. */
const EVERY = 15_000;

export function useLoaded<T>(read: () => Promise<T>, sessionId?: string): Loaded<T> {
  const [state, setState] = useState<Pick<Loaded<T>, "value" | "trouble">>({
    value: undefined,
    trouble: undefined,
  });
  const reads = useRef({ begun: 0, applied: 0 });
  const reload = useCallback(async () => {
    const begun = ++reads.current.begun;
    const answer = await read().then(
      (value) => ({ value, trouble: undefined }),
      (error) => ({ trouble: errorMessage(error) }),
    );
    // A later read may have completed earlier.
    if (begun < reads.current.applied) return;
    reads.current.applied = begun;
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
      // Also the first time: the session may have changed since it was read.
      if (last !== mark) reload();
      last = mark;
    });
  }, []);
  return { ...state, reload };
}
