// Elements, numbers and names. Nothing here parses HTML: every text becomes a text node.

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const NAME_CHARS_MAX = 80;

/** Create an element. `props`: attributes; `on…` functions are listeners; true sets an empty attribute, null and false none. */
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** Create an element of SVG. */
export function s(tag, props = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

function fill(node, props, children) {
  for (const [key, value] of Object.entries(props)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value);
  }
  node.append(...children.flat().filter(child => child !== null && child !== undefined && child !== ""));
  return node;
}

let pressed = null; // what is under the finger, until its click was handled
const waiting = new Map(); // node -> what to put there after that

document.addEventListener("pointerdown", event => { pressed = event.target; }, true);
for (const end of ["pointerup", "pointercancel", "blur"]) window.addEventListener(end, () => setTimeout(release), true);

function release() {
  pressed = null;
  for (const [node, children] of [...waiting]) {
    waiting.delete(node);
    put(node, ...children);
  }
}

/** Replace the content of a node; if something in it is pressed, after it is released: a tap on a new button would be no click. */
export function put(node, ...children) {
  if (pressed && node.contains(pressed)) {
    waiting.set(node, children);
    return;
  }
  waiting.delete(node);
  node.replaceChildren(...children.flat().filter(child => child !== null && child !== undefined && child !== ""));
}

/** Write characters that are invisible or change the direction of a text as escapes. */
export function visible(text) {
  return String(text).replace(HIDDEN, found => "\\u" + found.codePointAt(0).toString(16).padStart(4, "0"));
}

/** A text that comes from strangers: escaped, isolated in its direction, cut if it is long. */
export function name(text, charsMax = NAME_CHARS_MAX) {
  const whole = visible(text);
  const cut = whole.length > charsMax ? whole.slice(0, charsMax - 1) + "…" : whole;
  return h("bdi", { title: cut === whole ? null : whole, class: cut.length > 24 ? "long" : null }, cut);
}

/** A number with four digits; a dash if it is unknown. Nothing that is unknown is shown as 0. */
export function number(value, digits = 4) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  return size < 1e-4 || size >= 1e6 ? value.toExponential(2) : String(Number(value.toPrecision(digits)));
}

/** A count in few characters, for axes and tiles: 1.2 M. */
export function short(value) {
  if (value === null || value === undefined) return "–";
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(3))} ${unit}`;
  }
  return String(value);
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  return `${short(value)}${value < 1000 ? " " : ""}B`;
}

const TIME = { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" };

/** A point in time as people here read it, with their zone. */
export function time(text) {
  return text ? h("time", { datetime: text }, new Date(text).toLocaleString(undefined, TIME)) : "–";
}

/** A table. columns: {title, of(row), number?}; `of` returns a text or a node. */
export function table(columns, rows, caption) {
  const kind = column => (column.number ? { class: "number" } : {});
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {},
      h("thead", {}, h("tr", {}, columns.map(column => h("th", { scope: "col", ...kind(column) }, column.title)))),
      h("tbody", {}, rows.map(row => h("tr", {}, columns.map(column => h("td", kind(column), column.of(row))))))));
}

/** Texts and values side by side. */
export function facts(pairs) {
  return h("div", { class: "scroll", tabindex: "0" }, h("table", {}, h("tbody", {}, pairs.map(([title, value]) => h("tr", {}, h("th", { scope: "row" }, title), h("td", {}, value))))));
}

/**
 * A panel with a title, a caption in words and a button that shows and saves the figures behind it.
 * data() returns {columns: [text], rows: [[value]]}, by default those of the table in the panel; null for a panel without figures.
 */
export function panel(title, data = () => shownIn(body)) {
  const body = h("div"), id = title.toLowerCase().replace(/[^a-z]+/g, "-");
  const caption = h("p", { class: "quiet" }), behind = h("div", { hidden: true }), extra = h("span", { class: "row" });
  const button = h("button", { type: "button", "aria-expanded": "false", "aria-label": `data: ${title}`, onclick: toggle }, "data");
  const node = h("section", { id, "aria-label": title }, h("div", { class: "head" }, h("h2", {}, title), extra, h("span", { class: "gap" }), data ? button : null), body, caption, behind);

  function toggle() {
    behind.hidden = !behind.hidden;
    button.setAttribute("aria-expanded", String(!behind.hidden));
    if (behind.hidden) return put(behind);
    const { columns, rows } = data();
    const cells = columns.map((column, at) => ({ title: column, of: row => visible(row[at] ?? "–") }));
    put(behind, h("p", {}, h("button", { type: "button", onclick: () => save(id, columns, rows) }, "save as CSV")), rows.length ? table(cells, rows, `data of ${title}`) : h("p", {}, "There are no figures yet."));
  }
  return { node, body, caption, extra };
}

/** The texts of the first table in a node. */
function shownIn(node) {
  const rows = [...node.querySelectorAll("table:first-of-type tr")].map(row => [...row.children].map(cell => cell.textContent));
  const titled = Boolean(node.querySelector("thead"));
  return { columns: titled ? rows[0] || [] : ["figure", "value"], rows: titled ? rows.slice(1) : rows };
}

function save(id, columns, rows) {
  // A cell that begins with one of these characters would be a formula in a spreadsheet.
  const cell = value => `"${String(value ?? "").replace(/"/g, '""').replace(/^([=+@\t\r]|-(?![\d.]))/, "'$1")}"`;
  const text = [columns, ...rows].map(row => row.map(cell).join(",")).join("\r\n");
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  h("a", { href: address, download: `${id}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
