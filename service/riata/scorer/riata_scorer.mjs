// Scores rows with the model of a Riata service, without the service: in a browser, Node, Deno or a worker.
//
//     import { Scorer } from "./riata_scorer.mjs";
//     const scorer = new Scorer(JSON.parse(text));   // of model.json
//     scorer.margin({ age: 40, country: "de", tags: ["new"], user: { city: "paris" } });
//
//     scorer.probabilities({ age: 40 });             // of several classes
//
// Margins have the bits of the service's. Names and strings have to be in Unicode normal form C.

const M1 = 0x9e3779b97f4a7c15n, M2 = 0xd6e8feb86659fd93n, ALL = 2n ** 64n - 1n;
const NUMBER = 0n, FIELD_EQUALS = 1n, FIELD_NAMESPACE = 3n, CROSS = 4n;
const VALUE_ABS_MAX = 9e15, SMALLEST_NORMAL = 2 ** -1022, SQUARES_SMALL = 2 ** -900, LIFT = 2 ** 600;
const encoder = new TextEncoder();

// The 64-bit hash of the bytes of one part of a name, under a key.
function hashed(data, key, tag) {
  let h = key ^ ((BigInt(data.length) * M1) & ALL) ^ ((tag * M2) & ALL);
  for (let at = 0; at < data.length; at += 8) {
    let word = 0n;
    for (let i = Math.min(at + 8, data.length) - 1; i >= at; i--) word = (word << 8n) | BigInt(data[i]);
    h = ((h ^ word) * M1) & ALL;
    h ^= h >> 32n;
  }
  h = (h * M2) & ALL;
  return h ^ (h >> 32n);
}

function bytesOf(number) {
  return Uint8Array.from({ length: 8 }, (_, i) => Number((number >> BigInt(8 * i)) & 255n));
}

// The records [fingerprint, value] of one feature.
function feature(name, value, key) {
  if (typeof value === "number" || typeof value === "boolean") return [[hashed(encoder.encode(name), key, NUMBER), Number(value)]];
  const texts = value === null || value === undefined ? [] : Array.isArray(value) ? value : [value];
  return texts.map((text) => {
    if (typeof text !== "string") {
      throw new TypeError(`${name}: expected a number, a string, true, false, null, a list of strings, or an object of these`);
    }
    return [hashed(encoder.encode(text), hashed(encoder.encode(name), key, FIELD_EQUALS), NUMBER), 1];
  });
}

const YES = ["1", "true", "yes", "y", "t"], NO = ["0", "false", "no", "n", "f"];
const ABSENT = ["", "na", "n/a", "<na>", "#n/a", "#div/0!", "nan", "null", "none", "-", "?", "\\n", "nat"];
const DECIMAL = /^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$/;
const DATE = /^(\d{4})-(\d{2})-(\d{2})$/;
const TIME_OF_DAY = /^(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d+))?)?(?:[Zz]|([+-])(\d{2}):(\d{2}))?$/;
const PER_DAY = { time: 1, unix_s: 86400, unix_ms: 86400000 }, DAYS_MAX = 2932896;
const WEEKDAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

// A time: days since 1970, and texts of its hour and its day of the week.
class Moment {
  constructor(days, parts) {
    this.days = days;
    this.parts = parts;
  }
}

// A number that halves are rounded to the even one of, as Python does.
function rounded(x) {
  const floor = Math.floor(x), rest = x - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 !== 0) ? floor + 1 : floor;
}

// The time of days since 1970, in UTC; null beyond the year 9999.
function moment(days, hasHour) {
  if (!(Math.abs(days) <= DAYS_MAX)) return null;
  const seconds = rounded(days * 86400), day = Math.floor(seconds / 86400);
  const weekday = [["weekday", WEEKDAYS[(((day + 3) % 7) + 7) % 7]]];
  return new Moment(days, hasHour ? [["hour", String(Math.floor((seconds - day * 86400) / 3600))], ...weekday] : weekday);
}

// Days since 1970 of a date; null if there is no such date.
function dayOf(year, month, day) {
  const at = new Date(0);
  at.setUTCFullYear(year, month - 1, day);
  return year > 0 && at.getUTCMonth() === month - 1 && at.getUTCDate() === day ? at.getTime() / 86400000 : null;
}

// A time of RFC 3339, whose seconds and offset may be missing, or a date; also with slashes in place of `-`. Null if it
// is none.
function momentOf(written) {
  const text = written.replaceAll(":60", ":59").replace(/(\d{4})\/(\d{2})\/(?=\d{2})/, "$1-$2-");  // a leap second; slashes
  const found = DATE.exec(text) ?? TIME_OF_DAY.exec(text);
  if (found === null) return null;
  const [year, month, date] = found.slice(1, 4).map(Number), day = dayOf(year, month, date);
  if (day === null) return null;
  if (found.length === 4) return moment(day, false);
  const [hour, minute, second] = [found[4], found[5], found[6] ?? 0].map(Number);
  const micros = Number((found[7] ?? "0").padEnd(6, "0").slice(0, 6)), away = 60 * Number(found[9] ?? 0) + Number(found[10] ?? 0);
  if (hour > 23 || minute > 59 || second > 59 || Number(found[10] ?? 0) > 59 || away >= 1440) return null;
  const seconds = day * 86400 + 60 * (60 * hour + minute - (found[8] === "-" ? -away : away)) + second;
  return moment(micros === 0 ? seconds / 86400 : (seconds * 1000000 + micros) / 86400000000, true);
}

// The text of a number or a truth value as a category, as Python writes it.
function textOf(value) {
  if (typeof value === "boolean") return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 2 ** 53) return String(value === 0 ? 0 : value);
  const [digits, exponent] = value.toExponential().split("e"), power = Number(exponent);
  if (power < -4 || power >= 16) return `${digits}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  return Number.isInteger(value) ? `${value}.0` : String(value);
}

// The items of the list of texts, numbers and truth values that a text writes in JSON; the text itself if it writes none.
function itemsOf(text) {
  if (!text.startsWith("[")) return text;
  try {
    const found = JSON.parse(text);
    return found.every((one) => ["string", "number", "boolean"].includes(typeof one)) ? found : text;
  } catch {
    return text;
  }
}

// A value as a field of this kind has it. What cannot be read is returned as it is.
function asKind(kind, value) {
  if (kind === undefined || value === null || value === undefined) return value;
  if (value === "") return null;
  const isNumber = typeof value === "number" || typeof value === "boolean";
  if (kind === "category" || kind === "list") {
    if (kind === "list" && typeof value === "string") value = itemsOf(value);
    const asText = (one) => (typeof one === "number" || typeof one === "boolean" ? textOf(one) : one);
    return Array.isArray(value) ? value.map(asText) : asText(value);
  }
  if (isNumber) return kind in PER_DAY ? moment(Number(value) / PER_DAY[kind], true) ?? Number(value) : Number(value);
  if (typeof value !== "string") return value;
  const word = value.trim(), lower = word.toLowerCase();
  if (kind === "boolean" && (YES.includes(lower) || NO.includes(lower))) return Number(YES.includes(lower));
  if (ABSENT.includes(lower)) return null;
  if (kind in PER_DAY) return momentOf(word) ?? value;
  if (lower === "true" || lower === "false") return Number(lower === "true");
  return DECIMAL.test(word) && Math.abs(Number(word)) <= VALUE_ABS_MAX ? Number(word) : value;
}

const squaresOf = (row, lift) => row.reduce((total, [, value]) => total + value * lift * (value * lift), 0);
const kept = ([, value]) => Math.abs(value) >= SMALLEST_NORMAL;

const interval = (edges, value) => edges.filter((edge) => edge < value).length;

function withShapes(total, shapes, row) {
  total += shapes.intercept;
  for (const { hash, edges, values } of shapes.columns) {
    if (row.has(hash)) total += values[interval(edges, row.get(hash))];
  }
  for (const { hashes, edges, values } of shapes.pairs) {
    if (!hashes.every((hash) => row.has(hash))) continue;
    const [a, b] = hashes.map((hash, i) => interval(edges[i], row.get(hash)));
    total += values[a][b];
  }
  return total;
}

// What a margin is computed from: the intercept, the weights, and the numbers of the intervals that values of columns are in.
class Head {
  constructor(one, bits) {
    this.one = one;
    this.divisor = 2 ** (32 - bits);
    this.weights = new Map(one.slots.map((slot, i) => [slot, one.weights[i]]));
  }

  margin(row) {
    let total = this.one.intercept;
    for (const [hash, value] of row) {
      const weight = this.weights.get(Math.floor(hash / this.divisor));
      if (weight !== undefined) total += weight * value;
    }
    return this.one.shapes ? withShapes(total, this.one.shapes, new Map(row)) : total;
  }
}

// The logarithm of the probability that a class by itself has.
const logProbability = (m) => (m >= 0 ? -Math.log1p(Math.exp(-m)) : m - Math.log1p(Math.exp(m)));

export class Scorer {
  // model: the document model.json.
  constructor(model) {
    if (![2, 3, 4, 5, 6].includes(model.format)) throw new Error(`model.json has format ${model.format}, this scorer reads 2 to 6`);
    this.model = model;
    this.key = BigInt(model.hash_key);
    this.apart = model.apart ?? [];
    this.limits = new Map((model.limits ?? []).map(([hash, ...limits]) => [hash, limits]));
    this.kinds = new Map(Object.entries(model.fields ?? {}));
    this.heads = (model.classes ?? [model]).map((one) => [one.class, new Head(one, model.bits)]);
  }

  // The intercept, plus the weights times the features, plus the numbers of the intervals that values of columns are in.
  margin(features) {
    if (this.model.classes) throw new Error("the model has several classes: use margins or probabilities");
    return this.heads[0][1].margin(this.row(features));
  }

  // The margin of each of several classes, by name.
  margins(features) {
    const row = this.row(features);
    return Object.fromEntries(this.heads.map(([name, head]) => [name, head.margin(row)]));
  }

  // The probability of each of several classes, by name; null if it does not follow from the margins here.
  probabilities(features) {
    if (this.model.link !== "logistic") return null;
    const own = Object.entries(this.margins(features)).map(([name, m]) => [name, logProbability(this.bounded(m))]);
    const top = Math.max(...own.map(([, one]) => one)), parts = own.map(([, one]) => Math.exp(one - top));
    const total = parts.reduce((a, b) => a + b, 0);
    return Object.fromEntries(own.map(([name], i) => [name, parts[i] / total]));
  }

  bounded(margin) {
    const [low, high] = this.model.bounds ?? [-Infinity, Infinity];
    return Math.min(Math.max(margin, low), high);
  }

  // The probability of the positive class; null if the model has none that follows from the margin here.
  probability(features) {
    const m = this.bounded(this.margin(features));
    if (this.model.link === "logistic") return m >= 0 ? 1 / (1 + Math.exp(-m)) : Math.exp(m) / (1 + Math.exp(m));
    return this.model.link === "identity" ? Math.min(Math.max(m, 0), 1) : null;
  }

  // [32-bit hash, value] of each feature, by hash: those of a hash summed, zeros dropped, normalised.
  row(features) {
    const sums = new Map();
    for (const [fingerprint, value] of this.records(features)) {
      const hash = Number(fingerprint >> 32n);
      sums.set(hash, sums.has(hash) ? sums.get(hash) + value : value);
    }
    for (const value of sums.values()) {
      if (!(Math.abs(value) <= VALUE_ABS_MAX)) throw new RangeError(`a feature is larger than ${VALUE_ABS_MAX}`);
    }
    const row = [...sums].filter(kept).sort((a, b) => a[0] - b[0]);
    return this.normalised(row).flatMap((one) => this.used(one)).sort((a, b) => a[0] - b[0]);
  }

  normalised(row) {
    if (!this.model.l2 || row.length === 0) return row;
    const lift = squaresOf(row, 1) < SQUARES_SMALL ? LIFT : 1;
    const norm = Math.sqrt(squaresOf(row, lift));
    return row.map(([hash, value]) => [hash, (value * lift) / norm]).filter(kept);
  }

  // A feature with the value that it counts as, if any, and the indicator of a value that is set apart.
  used([hash, value]) {
    const found = this.apart.find(([one, apart]) => apart === value && (one === null || one === hash));
    if (!found) {
      const [low, high] = this.limits.get(hash) ?? [value, value];
      return [[hash, Math.min(Math.max(value, low), high)]];
    }
    const bytes = new Uint8Array(8);
    new DataView(bytes.buffer).setFloat64(0, value, true);
    const indicator = [Number(hashed(bytes, BigInt(hash), FIELD_EQUALS) >> 32n), 1];
    return found[2] ? [[hash, found[2]], indicator] : [indicator];
  }

  // The records of a value by the kind of its field.
  read(field, name, value, key) {
    const found = asKind(this.kinds.get(field), value);
    if (!(found instanceof Moment)) return feature(name, found, key);
    const parts = found.parts.flatMap(([part, text]) => feature(`${name}.${part}`, text, key));
    return [...feature(name, found.days, key), ...parts];
  }

  records(features) {
    const fields = new Map();
    for (const [name, value] of Object.entries(features)) {
      const isNamespace = value !== null && typeof value === "object" && !Array.isArray(value);
      const key = isNamespace ? hashed(encoder.encode(name), this.key, FIELD_NAMESPACE) : this.key;
      const inside = isNamespace ? Object.entries(value) : [[name, value]];
      fields.set(name, inside.flatMap(([inner, item]) => this.read(isNamespace ? `${name}^${inner}` : name, inner, item, key)));
    }
    const records = [...fields.values()].flat();
    for (const cross of this.model.crosses) {
      const [first, ...others] = cross.map((name) => (fields.get(name) ?? []).filter(([, value]) => value !== 0));
      let made = first;
      for (const part of others) {
        made = made.flatMap(([a, x]) => part.map(([b, y]) => [hashed(bytesOf(b), a, CROSS), x * y]));
      }
      records.push(...made.map(([hash, value]) => [hash, value * this.model.cross_scale]));
    }
    return records;
  }
}
