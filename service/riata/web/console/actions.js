// Changes that a person asks for: each says what will be lost, and the ones that cannot be undone ask for the model's name.

import { h, put } from "./dom.js";

/** Ask in a dialog; resolves to true once the name was typed, or confirmed with one click if `name` is empty. */
export function confirm(title, sentences, name, verb) {
  const dialog = document.querySelector("#ask");
  return new Promise(resolve => {
    const typed = h("input", { type: "text", autocomplete: "off", "aria-label": `type ${name} to confirm`, oninput: () => { go.disabled = typed.value !== name; } });
    const go = h("button", { type: "submit", disabled: Boolean(name) }, verb);
    const form = h("form", { method: "dialog", onsubmit: () => dialog.close(!name || typed.value === name ? "yes" : "") },
      h("h2", { id: "ask-title" }, title), sentences.map(sentence => h("p", {}, sentence)),
      name ? h("label", {}, `Type ${name} to confirm `, typed) : null,
      h("div", { class: "row" }, go, h("button", { type: "button", onclick: () => dialog.close("") }, "Cancel")));
    put(dialog, form);
    dialog.returnValue = "";
    dialog.onclose = () => resolve(dialog.returnValue === "yes");
    dialog.showModal();
    (name ? typed : go).focus();
  });
}

/** Ask for a key; resolves to it, "" to forget the present one, or null if the dialog was left. */
export function askForKey(why, present) {
  const dialog = document.querySelector("#ask");
  return new Promise(resolve => {
    const typed = h("input", { type: "password", autocomplete: "off", spellcheck: "false", "aria-label": "API key" });
    const form = h("form", { method: "dialog", onsubmit: () => dialog.close("use") },
      h("h2", { id: "ask-title" }, "API key"), h("p", {}, why),
      h("p", { class: "quiet" }, "It stays in this tab until the tab is closed. Make one with: riata keys new --id console --scope watch --model '*' --keys-file keys.toml"),
      typed, h("div", { class: "row" }, h("button", { type: "submit" }, "Use"),
        present ? h("button", { type: "button", onclick: () => dialog.close("forget") }, "Forget the present key") : null,
        h("button", { type: "button", onclick: () => dialog.close("") }, "Cancel")));
    put(dialog, form);
    dialog.returnValue = "";
    dialog.onclose = () => resolve({ use: typed.value.trim() || null, forget: "" }[dialog.returnValue] ?? null);
    dialog.showModal();
    typed.focus();
  });
}

/** A button for a change: without the scope it is disabled and says which key is needed. */
export function button(label, scope, can, work) {
  const allowed = can(scope);
  return h("button", { type: "button", disabled: !allowed, title: allowed ? null : `needs a key with the scope ${scope}`, onclick: work }, label);
}
