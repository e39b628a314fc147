import type { JSX } from "preact";
import { useState } from "preact/hooks";

/** Asks for the server's token, which this browser then keeps. */
export function Lock(
  { isRefused, enter }: { readonly isRefused: boolean; readonly enter: (token: string) => void },
): JSX.Element {
  const [token, setToken] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    if (token.trim() !== "") enter(token.trim());
  };
  return (
    <main class="lock">
      <h1>Tare</h1>
      <form onSubmit={submit}>
        <label for="token">The server's token</label>
        <input
          id="token"
          type="password"
          autocomplete="current-password"
          value={token}
          aria-describedby="token-help"
          aria-invalid={isRefused}
          ref={(field) => field?.focus()}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        <p id="token-help" role={isRefused ? "alert" : undefined}>
          {isRefused
            ? "That isn't the server's token. It is the one that the server was started with, TARE_TOKEN."
            : "It is what TARE_TOKEN said when the server was started. This browser keeps it for this server."}
        </p>
        <button type="submit" class="primary">Enter</button>
      </form>
    </main>
  );
}
