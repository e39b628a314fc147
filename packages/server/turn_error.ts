import type { ModelErrorCode, TurnEnd } from "@tare/loop";
import { OpenaiError } from "./openai_error.ts";

/** What is known of a failed turn beside its end. */
export interface TurnFailure {
  /** Whether a tool was called: sending the request again would call it again. */
  readonly acted: boolean;
  /** How long the provider asks to wait, in milliseconds. */
  readonly retryAfterMs?: number | undefined;
}

/**
 * A turn that ended without an answer, as an HTTP error. The provider's own faults are 502, whatever its status was:
 * a key that it refused isn't the client's key. A cancelled turn is 499, which no client sends again by itself, and
 * one in which tools have run asks clients not to.
 */
export function turnError(end: TurnEnd, { acted, retryAfterMs }: TurnFailure): OpenaiError {
  const { status, code } = kindOf(end);
  const message = end.message ?? "The turn ended without an answer.";
  return new OpenaiError(status, message, {
    code,
    headers: {
      ...(acted && { "x-should-retry": "false" }),
      ...(status === 429 && retryAfterMs !== undefined && {
        "retry-after": String(Math.ceil(retryAfterMs / 1000)),
      }),
    },
  });
}

function kindOf({ reason, code }: TurnEnd): { readonly status: number; readonly code: string } {
  switch (reason) {
    case "cancelled":
      return { status: 499, code: "cancelled" };
    case "stalled":
      return { status: 504, code: "stalled" };
    case "model_error":
      return providerError(code);
    default:
      return { status: 500, code: "internal_error" };
  }
}

function providerError(code: ModelErrorCode = "provider_error"): {
  readonly status: number;
  readonly code: string;
} {
  if (code === "rate_limited") return { status: 429, code: "rate_limit_exceeded" };
  if (code === "prompt_too_long") return { status: 400, code: "context_length_exceeded" };
  return { status: 502, code };
}
