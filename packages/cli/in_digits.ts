/** A number in digits, thousands apart. */
export function inDigits(value: number): string {
  return Math.round(value).toLocaleString("en");
}

/** A number of things: `1 call`, `2 calls`. */
export function inDigitsOf(value: number, word: string): string {
  return `${inDigits(value)} ${word}${value === 1 ? "" : "s"}`;
}

/** Dollars, small ones more exactly. */
export function inDollars(usd: number): string {
  return usd === 0 ? "0" : usd < 0.01 ? usd.toFixed(4) : usd.toFixed(2);
}
