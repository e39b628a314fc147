import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { errorMessage } from "../api/api.ts";

export function Trouble({ text }: { readonly text: string | undefined }): JSX.Element | null {
  return text === undefined ? null : <p class="error" role="alert">{text}</p>;
}

/** Returns the error of the last action, and a function that runs an action and resolves to whether it succeeded. */
export function useAttempt(): readonly [
  string | undefined,
  (act: () => Promise<unknown>) => Promise<boolean>,
] {
  const [trouble, setTrouble] = useState<string>();
  const attempt = async (act: () => Promise<unknown>) => {
    setTrouble(undefined);
    try {
      await act();
      return true;
    } catch (error) {
      setTrouble(errorMessage(error));
      return false;
    }
  };
  return [trouble, attempt];
}
