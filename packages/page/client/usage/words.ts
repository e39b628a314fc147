const CAUSES: Readonly<Record<string, string>> = {
  first_call: "as the first call of the session",
  new: "were new",
  own_rewrite: "moved by a rewrite",
  tools_changed: "behind tools that changed",
  model_changed: "for another model",
  expired: "kept longer than the cache does",
  provider_lost: "lost by the provider’s cache",
};

/** Why tokens weren't read from the cache, to stand behind their number. */
export function causeInWords(cause: string): string {
  return CAUSES[cause] ?? cause;
}
