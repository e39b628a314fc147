/**
 * How the server's process uses memory: a small young generation. What it allocates is mostly short-lived text, and V8
 * would keep room for more and more of it.
 */
export const V8_FLAGS = "--v8-flags=--max-semi-space-size=4";
