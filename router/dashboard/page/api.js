"use strict";

const KEY_ITEM = "pbkv.api-key";
const TIMEOUT_MS = 15000;

/** The router wants a key, or another one. */
class KeyWanted extends Error {}

const apiKey = {
  get: () => sessionStorage.getItem(KEY_ITEM),
  set: (key) => sessionStorage.setItem(KEY_ITEM, key),
  forget: () => sessionStorage.removeItem(KEY_ITEM),
};

/** JSON of one of the router's own endpoints, by a path relative to the page. */
async function ask(path) {
  const key = apiKey.get();
  const answer = await fetch(path, {
    headers: key === null ? {} : { Authorization: `Bearer ${key}` },
    cache: "no-store",
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  if (answer.status === 401 || answer.status === 403) throw new KeyWanted();
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  return answer.json();
}
