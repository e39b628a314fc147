import { loadTokenizer } from "@tare/tiktoken";

const LENGTH = 1_000_000;
const { count } = await loadTokenizer();

const letters = "abcdefghijklmnopqrstuvwxyz";
const base64 = letters + letters.toUpperCase() + "0123456789+/";
const hanzi =
  "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生自会那后能对着事其里";

const texts: Readonly<Record<string, string>> = {
  "prose": repeat("The quick brown fox, jumping over 12 lazy dogs, doesn't look back. "),
  "Cyrillic prose": repeat("Съешь же ещё этих мягких французских булок да выпей чаю. "),
  "minified code": repeat(
    'function a(b,c){return b?c[b]||(c[b]=new Map):0}for(let d=0;d<9;d++)e[d]={f:"g"};',
  ),
  "base64": random(base64),
  "random letters without spaces": random(letters),
  "random Chinese without spaces": random(hanzi),
  "random punctuation": random("!@#$%^&*()[]{};:,.<>"),
  "one letter": repeat("a"),
  "one capital": repeat("A"),
  "one digit": repeat("1"),
  "spaces": repeat(" "),
  "newlines": repeat("\n"),
  "spaces and newlines": repeat(" \n"),
  "one emoji": repeat("😀"),
  "lone surrogates": repeat("\ud800"),
  "special tokens": repeat("<|endoftext|>"),
};

for (const [name, text] of Object.entries(texts)) {
  Deno.bench(`count 1,000,000 code units: ${name}`, { n: 5, warmup: 1 }, () => {
    count(text);
  });
}

function repeat(unit: string): string {
  return unit.repeat(Math.ceil(LENGTH / unit.length)).slice(0, LENGTH);
}

function random(alphabet: string): string {
  const characters = [...alphabet];
  let state = 12345;
  let text = "";
  while (text.length < LENGTH) {
    state = Math.imul(state, 1103515245) + 12345 >>> 0;
    text += characters[(state >>> 8) % characters.length];
  }
  return text;
}
