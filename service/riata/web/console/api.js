// Requests to the service. The key is in the memory of this tab only, and is sent as a header: no cookie, nothing to forge.

const KEY = "riata.key";
const kept = new Map(); // by path: {tag, document}

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `the service answered ${status}`);
    this.status = status;
    this.code = problem.code || "";
  }
}

/** No answer came: the service or the network is down. */
export class Unanswered extends Error {}

export const key = () => sessionStorage.getItem(KEY) || "";

export function setKey(value) {
  kept.clear();
  if (value) sessionStorage.setItem(KEY, value);
  else sessionStorage.removeItem(KEY);
}

/** Send one request; resolves to the document. Rejects with `Refused` or `Unanswered`. */
export async function ask(method, path, body) {
  const headers = key() ? { Authorization: `Bearer ${key()}` } : {};
  const known = method === "GET" ? kept.get(path) : undefined;
  if (known) headers["If-None-Match"] = known.tag;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(new URL(path, document.baseURI), {
    method, headers, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store", credentials: "omit",
  }).catch(error => { throw new Unanswered(error.message); });
  if (answer.status === 304) return known.document;
  const found = (answer.headers.get("content-type") || "").includes("json") ? await answer.json() : {};
  if (!answer.ok) throw new Refused(answer.status, found);
  const tag = answer.headers.get("etag");
  if (tag && method === "GET") kept.set(path, { tag, document: found });
  return found;
}

export const get = path => ask("GET", path);
export const of = (model, part = "") => `models/${encodeURIComponent(model)}${part}`;
