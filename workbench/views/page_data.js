// What every standalone page shares: reading what packed.py wrote, and traits without a kernel.

const ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ!#$%()*+,-./:;=?@[]^_{}";
const DIGIT = new Uint8Array(128);
[...ALPHABET].forEach((c, k) => { DIGIT[c.charCodeAt(0)] = k; });

function bytesOf(text) {       // five characters hold four bytes, least first; the first says how many are no data
  const words = new Uint32Array((text.length - 1) / 5);
  for (let k = 0, i = 5; k < words.length; k++, i += 5)
    words[k] = (((DIGIT[text.charCodeAt(i)] * 85 + DIGIT[text.charCodeAt(i - 1)]) * 85 + DIGIT[text.charCodeAt(i - 2)]) * 85
      + DIGIT[text.charCodeAt(i - 3)]) * 85 + DIGIT[text.charCodeAt(i - 4)];
  return new Uint8Array(words.buffer, 0, words.byteLength - Number(text[0]));
}
async function inflated(text) {
  const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
async function unpackText(text) { return new TextDecoder().decode(await inflated(text)); }

// whole numbers as their low and their high 32 bits; high is left out where all are zero
async function unpackNumbers([width, count, text]) {
  const bytes = await inflated(text);
  if (width === 1) return { low: bytes };
  const half = (from, to) => {
    const out = new Uint32Array(count);
    for (let plane = from; plane < to; plane++)
      for (let i = 0, at = plane * count, shift = 8 * (plane - from); i < count; i++, at++) out[i] |= bytes[at] << shift;
    return out;
  };
  return width > 4 ? { low: half(0, 4), high: half(4, width) } : { low: half(0, width) };
}

class Traits {                 // what a widget's model is to its front end
  constructor(state) { this.state = state; this.heard = {}; }
  get(name) { return this.state[name]; }
  set(name, value) { this.state[name] = value; this.tell(`change:${name}`); }
  save_changes() {}
  send() {}
  on(event, does) { (this.heard[event] ||= []).push(does); }
  off(event, does) { this.heard[event] = (this.heard[event] || []).filter((f) => f !== does); }
  tell(event, ...args) { for (const does of this.heard[event] || []) does(...args); }
}
