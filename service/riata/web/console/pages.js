// The list of pages, in the order of the navigation: by name in the URL, the title and the function.
//
// A page is a function of a context that returns {node, tick, every}: `node` is built once; `tick` reads and shows what is new, and returns a
// sentence for screen readers; it runs with each `every`-th poll, by default with each. Context: model, params (of the URL), set(changes) (writes
// the URL), link(changes), can(scope), status() (the last /status), now() (polls at once), act(work), say(text).

import { overview } from "./pages/overview.js";
import { learning } from "./pages/learning.js";
import { model } from "./pages/model.js";
import { path } from "./pages/path.js";
import { tryIt } from "./pages/try.js";
import { data } from "./pages/data.js";
import { versions } from "./pages/versions.js";
import { service } from "./pages/service.js";

export const PAGES = {
  overview: ["Overview", overview], learning: ["Learning", learning], model: ["Model", model], path: ["Path", path],
  try: ["Try it", tryIt], data: ["Data", data], versions: ["Snapshots", versions], service: ["Service", service],
};
