/**
 * Longest result of the tools that read, in UTF-8 bytes, header aside. Of common code and prose this is fewer than
 * 8,000 tokens, above which results are usually shortened before the model sees them: a page that fits is seen whole.
 */
export const MAX_RESULT_BYTES: number = 24 * 1024;
