const SHARE = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 1 });

export function share(part: number, whole: number): string {
  return whole === 0 ? "–" : SHARE.format(part / whole);
}

export function duration(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

const DOLLARS = new Intl.NumberFormat("en", {
  style: "currency",
  currency: "USD",
  maximumSignificantDigits: 3,
});

export function dollars(usd: number): string {
  return DOLLARS.format(usd);
}

/** Escapes invisible characters and those that reorder text. */
export function plain(text: string): string {
  return text.replaceAll(
    /[^\P{Cc}\n\t]|[\p{Cf}\p{Zl}\p{Zp}]/gu,
    (char) => `\\u{${char.codePointAt(0)!.toString(16)}}`,
  );
}
