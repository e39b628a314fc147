import fc from "./cases.ts";

/** Generates code points without surrogates. The unit `"binary"` takes a second to build in each file. */
export function codePoints(): fc.Arbitrary<string> {
  return fc.integer({ min: 0, max: 0x10ffff - 0x800 })
    .map((at) => String.fromCodePoint(at < 0xd800 ? at : at + 0x800));
}
