/**
 * Whether two values of JSON say the same, in whatever order their fields stand.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { sameJson } from "@tare/messages";
 *
 * assertEquals(sameJson({ a: 1, b: [2] }, { b: [2], a: 1 }), true);
 * assertEquals(sameJson([1, 2], [2, 1]), false);
 * ```
 */
export function sameJson(one: unknown, other: unknown): boolean {
  if (one === other) return true;
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return false;
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const [fields, others] = [Object.entries(one), new Map(Object.entries(other))];
  return fields.length === others.size &&
    fields.every(([name, value]) => others.has(name) && sameJson(value, others.get(name)));
}
