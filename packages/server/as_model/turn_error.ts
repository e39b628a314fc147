import type { ModelErrorCode, TurnEnd } from "@tare/loop";
import { OpenaiError } from "./openai_error.ts";

/**
 * A turn that ended without an answer, as an HTTP error. The provider's own faults are 502, whatever its status was:
 * a key that it refused isn't the client's key. A cancelled turn is 499, which no client sends again by itself.
 *
 * @param retryAfterMs How long the provider asks to wait, in milliseconds.
 */
export function turnError(end: TurnEnd, retryAfterMs?: number): OpenaiError {
  const { status, code } = kindOf(end);
  const message = end.message ?? "The turn ended without an answer.";
  const seconds = status === 429 && retryAfterMs !== undefined ? Math.ceil(retryAfterMs / 1000) : undefined;
  return new OpenaiError(status, message, {
    code,
    ...(seconds !== undefined && { headers: { "retry-after": String(seconds) } }),
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
