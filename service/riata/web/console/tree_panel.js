// The panel of fields that are curves: their trees, drawn, and the weight of each leaf.

import { get, of } from "./api.js";
import { h, name, number, panel, put, table } from "./dom.js";

export function treePanel(context) {
  const found = panel("Curves", null);
  let trees = [], known = "{}";
  found.node.hidden = true;

  const drawn = tree => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `tree of ${tree.field}` },
    h("img", { src: `data:image/svg+xml,${encodeURIComponent(tree.drawing)}`, alt: `The tree of ${tree.field}: each split with its two prototype curves. The table says the same in words.` }));

  /** Show the trees of `given`, digests by field. */
  async function show(given) {
    const wanted = JSON.stringify(given || {});
    if (wanted !== known) trees = (await get(of(context.model, "/trees"))).trees;
    known = wanted;
    found.node.hidden = !trees.length;
    const weights = await Promise.all(trees.map(tree => get(of(context.model, `/weights?top=1000&prefix=${encodeURIComponent(`${tree.field}#`)}`))));
    const weightOf = new Map(weights.flatMap(answer => answer.weights).map(one => [one.feature, one.weight]));
    put(found.body, trees.flatMap(tree => [drawn(tree), table([
      { title: "leaf", of: leaf => name(leaf.feature) },
      { title: "weight", number: true, of: leaf => number(weightOf.get(leaf.feature) ?? 0) },
      { title: "its curves are", of: leaf => leaf.path },
      { title: "rows that the tree learnt", of: leaf => Object.entries(leaf.rows).flatMap(([label, rows]) => [name(label), `: ${number(rows)} `]) },
    ], tree.leaves, `leaves of ${tree.field}`)]));
    put(found.caption, "A curve goes to the side of the prototype that is nearer: blue is left, red is right. The model weighs the leaf in which it ends.");
  }
  return { ...found, show };
}
