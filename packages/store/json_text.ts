/** What a store keeps of a value: its JSON. @throws {TypeError} if JSON can't hold it. */
export function jsonText(value: unknown): string {
  const json = JSON.stringify(value);
  if (json === undefined) throw new TypeError(`Cannot store a value of type ${typeof value}: it is no JSON`);
  return json;
}
