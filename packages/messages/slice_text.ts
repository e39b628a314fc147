/** Returns `text.slice(start, end)` without halves of surrogate pairs at its ends, which receivers refuse. */
export function sliceText(text: string, start: number, end: number): string {
  return text.slice(
    isLowSurrogate(text, start) ? start + 1 : start,
    isLowSurrogate(text, end) ? end - 1 : end,
  );
}

function isLowSurrogate(text: string, at: number): boolean {
  return (text.charCodeAt(at) & 0xFC00) === 0xDC00 && (text.charCodeAt(at - 1) & 0xFC00) === 0xD800;
}
