// The frame around the pages: URL, key, model, theme, and one poll every two seconds while somebody looks.

import { askForKey } from "./actions.js";
import { Unanswered, get, key, setKey } from "./api.js";
import { h, put, short, visible } from "./dom.js";
import { PAGES } from "./pages.js";

const EVERY_MS = 2000, SLOWEST_MS = 30000, SPOKEN_MS = 60000;
const $ = selector => document.querySelector(selector);
const state = { page: "", params: new URLSearchParams(), status: null, who: null, built: null, failures: 0, ticks: 0, spoken: 0, seen: null };
let timer = 0, turn = 0;

function link(changes) {
  const params = new URLSearchParams(state.params);
  for (const [name, value] of Object.entries(changes)) {
    if (value === "" || value === null) params.delete(name);
    else params.set(name, value);
  }
  return `#/${state.page}?${params}`;
}

const modelName = () => state.params.get("model") || "default";

function readUrl() {
  const [page, query] = location.hash.replace(/^#\//, "").split("?");
  state.page = PAGES[page] ? page : "overview";
  state.params = new URLSearchParams(query || "");
}

const context = {
  get model() { return modelName(); },
  get params() { return state.params; },
  set(changes) { history.replaceState(null, "", link(changes)); readUrl(); },
  link,
  can: scope => Boolean(state.who && state.who.scopes.includes(scope)),
  status: () => state.status,
  now: () => { state.ticks = 0; return poll(); },
  say(text) { put($("#spoken"), text); },
  async act(work) {
    try {
      const told = await work();
      put($("#trouble"));
      context.say(told);
    } catch (error) {
      trouble(error.status ? `Refused: ${error.message}` : "The service did not answer; whether it did this is not known. Look before you try again.");
      return;
    }
    await poll();
  },
};

const trouble = (...told) => put($("#trouble"), ...told);

function build() {
  const [title, page] = PAGES[state.page];
  document.title = `${title} · ${modelName()} · Riata`;
  put($("nav"), Object.entries(PAGES).map(([name, [label]]) => h("a", { href: `#/${name}?model=${encodeURIComponent(modelName())}`, "aria-current": name === state.page ? "page" : null }, label)));
  state.built = page(context);
  state.ticks = 0;
  put($("#main"), h("h1", {}, `${title}: ${visible(modelName())}`), state.built.node);
}

function showHeader() {
  const models = state.status ? state.status.models : [], now = modelName();
  const names = [...new Set([...models.map(one => one.name), now])];
  if ([...$("#model").options].map(option => option.value).join() !== names.join()) put($("#model"), names.map(one => h("option", { value: one }, visible(one))));
  $("#model").value = now;
  const mine = models.find(one => one.name === now);
  if (mine) {
    const before = state.seen && state.seen.name === now ? state.seen : null, at = performance.now();
    const rate = before && at > before.at ? Math.max(0, (mine.seq_logged - before.seq) / ((at - before.at) / 1000)) : null;
    state.seen = { name: now, seq: mine.seq_logged, at };
    put($("#pulse"), `● ${mine.seq_logged > mine.seq_applied ? "learning" : "up to date"}${rate === null ? "" : ` · ${short(Math.round(rate))} events/s`} · ${short(mine.seq_logged - mine.seq_applied)} behind`);
  } else put($("#pulse"), state.status ? `no model named ${visible(now)}, or the key may not see it` : "");
  put($("#key"), state.who && state.who.key ? `key: ${state.who.key} (${state.who.scopes.join(", ")})` : key() ? "key: not accepted" : "key: none");
}

async function poll() {
  clearTimeout(timer);
  const mine = ++turn;
  if (document.hidden) return;
  try {
    if (!state.who) {
      state.who = await get("whoami");
      if (mine !== turn) return;
      build(); // buttons depend on the scopes
    }
    state.status = await get("status");
    if (mine !== turn) return;
    showHeader();
    const built = state.built;
    if (state.ticks++ % (built.every || 1) === 0) {
      const told = await built.tick();
      if (told && performance.now() - state.spoken > SPOKEN_MS) {
        state.spoken = performance.now();
        context.say(told);
      }
    }
    if (state.failures) trouble();
    state.failures = 0;
  } catch (error) {
    if (mine !== turn) return;
    await failed(error);
  }
  if (mine === turn) timer = setTimeout(poll, Math.min(SLOWEST_MS, EVERY_MS * 2 ** Math.min(state.failures, 4)));
}

async function failed(error) {
  state.failures++;
  if (error.status === 401) {
    state.who = null;
    state.failures = 0;
    showHeader();
    trouble(`${error.message} `, h("button", { type: "button", onclick: enterKey }, "Enter a key"));
    state.failures = 4; // no need to hurry: only a person can mend it
  } else if (error.status) trouble(error.status === 403 ? `${error.message}. Reading the console needs the scope watch.` : error.message);
  else if (error instanceof Unanswered) trouble("The service does not answer. Is it running (riata serve)? What is shown is from before; the page tries again by itself.");
  else {
    console.error(error);
    trouble(`The console has a fault: ${error.message}. Load the page again.`);
  }
}

async function enterKey() {
  const given = await askForKey(key() ? "Replace the key of this tab." : "This service requires a key.", key());
  if (given === null) return;
  setKey(given);
  Object.assign(state, { who: null, status: null, failures: 0 });
  trouble();
  await poll();
}

function setTheme(theme) {
  const dark = theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  put($("#theme"), dark ? "light" : "dark");
  $("#theme").setAttribute("aria-label", `switch to ${dark ? "light" : "dark"} colours`);
}

$("#theme").addEventListener("click", () => {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("riata.theme", theme);
  setTheme(theme);
  build();
  poll();
});
$("#key").addEventListener("click", enterKey);
$("#model").addEventListener("change", () => { location.hash = link({ model: $("#model").value }); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (!localStorage.getItem("riata.theme")) { setTheme(); build(); poll(); } });
document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
window.addEventListener("hashchange", () => {
  readUrl();
  build();
  $("#main").focus();
  poll();
});

setTheme(localStorage.getItem("riata.theme"));
readUrl();
build();
poll();
