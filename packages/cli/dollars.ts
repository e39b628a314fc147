/** Returns dollars for a table: 4 decimals below $0.01, else 2. */
export function inDollars(usd: number): string {
  return usd === 0 ? "0" : usd < 0.01 ? usd.toFixed(4) : usd.toFixed(2);
}

export function usdText(usd: number): string {
  return usd > 0 && usd < 0.0001 ? "under $0.0001" : `$${usd.toFixed(usd < 1 ? 4 : 2)}`;
}
