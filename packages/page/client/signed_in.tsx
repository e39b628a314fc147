import type { Told } from "@tare/server/client";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api, gate, keepKey } from "./api/api.ts";
import { dollars } from "./parts/format.ts";

/** How often it is asked what the key has cost, in milliseconds. */
const EVERY = 15_000;

/** Who is signed in, what that key has cost today, and whether its budget is spent. */
export function SignedIn(): JSX.Element | null {
  const [key, setKey] = useState<Told<"GET /v1/key">>();
  useEffect(() => {
    // Who isn't let in is asked for a key; that the server is away others say.
    const read = () => api.json("GET /v1/key").then(setKey, () => {});
    read();
    gate.spent = read;
    const timer = setInterval(read, EVERY);
    return () => {
      clearInterval(timer);
      gate.spent = () => {};
    };
  }, []);
  if (!key || key.name === "guest") return null;
  const { name, budgetUsdPerDay: budget, spentUsd: spent = 0 } = key;
  const isSpent = budget !== undefined && spent >= budget;
  const leave = () => {
    keepKey(undefined);
    location.reload();
  };
  return (
    <p class="signed-in">
      <span>
        Signed in as <bdi>{name}</bdi>
        {budget !== undefined && ` · ${dollars(spent)} of ${dollars(budget)} today`}
      </span>
      {isSpent && (
        <strong role="alert">
          This key’s budget for today is spent: nothing more is asked of a model before midnight UTC, or until
          the owner gives it more.
        </strong>
      )}
      <button type="button" class="quiet" onClick={leave}>Sign out</button>
    </p>
  );
}
