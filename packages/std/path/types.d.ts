export interface ParsedPath {
  root: string;
  dir: string;
  base: string;
  ext: string;
  name: string;
}
export interface GlobToRegExpOptions {
  extended?: boolean;
  globstar?: boolean;
  caseInsensitive?: boolean;
}
export const DELIMITER: ":" | ";";
export const SEPARATOR: "/" | "\\";
export function basename(path: string | URL, suffix?: string): string;
export function dirname(path: string | URL): string;
export function extname(path: string | URL): string;
export function fromFileUrl(url: string | URL): string;
export function globToRegExp(glob: string, options?: GlobToRegExpOptions): RegExp;
export function isAbsolute(path: string): boolean;
export function isGlob(str: string): boolean;
export function join(path?: string | URL, ...paths: string[]): string;
export function normalize(path: string | URL): string;
export function parse(path: string): ParsedPath;
export function relative(from: string, to: string): string;
export function resolve(...pathSegments: string[]): string;
export function toFileUrl(path: string): URL;
