const SHARE = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 1 });

/** A share of a whole as a percentage; of nothing it is nothing. */
export function share(part: number, whole: number): string {
  return whole === 0 ? "–" : SHARE.format(part / whole);
}

/** A time span: `120 ms`, `3.4 s`. */
export function duration(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

const DOLLARS = new Intl.NumberFormat("en", {
  style: "currency",
  currency: "USD",
  maximumSignificantDigits: 3,
});

/** A cost in US dollars, to three digits. */
export function dollars(usd: number): string {
  return DOLLARS.format(usd);
}

/** Text in which nothing is hidden: what shows as nothing, or moves what stands beside it, is spelled out. */
export function plain(text: string): string {
  return text.replaceAll(
    /[^\P{Cc}\n\t]|[\p{Cf}\p{Zl}\p{Zp}]/gu,
    (char) => `\\u{${char.codePointAt(0)!.toString(16)}}`,
  );
}
