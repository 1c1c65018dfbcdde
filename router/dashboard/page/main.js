"use strict";

const REFRESH_MS = 3000;
const TYPING_MS = 250;
/** Listing workflows costs the router time: what took t is asked again after this times t. */
const PATIENCE = 20;

let lastAnswer = null;
let paused = false;
let waiting = null;
let latestSearch = 0;
let workflowsDue = 0;
/** How far the router's clock is ahead of this one's, in seconds: ages are told by the router's. */
let clockAhead = 0;
/** Counts refreshes and sign-outs: an answer of before the last one is void. */
let turn = 0;

async function refresh() {
  clearTimeout(waiting);
  const mine = ++turn;
  try {
    const [replicas, activity] = await Promise.all([ask("v1/replicas"), ask("v1/activity")]);
    if (mine !== turn) return;
    const ready = showReplicas(replicas);
    showActivity(activity);
    clockAhead = activity.now - Date.now() / 1000;
    if (performance.now() >= workflowsDue) await refreshWorkflows();
    if (mine !== turn) return;
    lastAnswer = new Date();
    showContent(true);
    showState(ready, replicas.data.length);
  } catch (problem) {
    if (mine !== turn) return;
    showProblem(problem);
    if (problem instanceof KeyWanted) return;
  }
  schedule();
}

async function refreshWorkflows() {
  const search = ++latestSearch;
  const began = performance.now();
  const answer = await ask(workflowsPath());
  const took = performance.now() - began;
  workflowsDue = performance.now() + Math.min(30000, PATIENCE * took);
  // An answer to what was typed before must not replace the newer one.
  if (search === latestSearch) showWorkflows(answer, Date.now() / 1000 + clockAhead);
}

function schedule() {
  clearTimeout(waiting);
  if (!paused && !document.hidden) waiting = setTimeout(refresh, REFRESH_MS);
}

function showState(ready, known) {
  const status = byId("status");
  document.body.classList.remove("stale");
  if (ready === 0) {
    status.className = "status warn";
    setText(status, known ? "No replica is ready: new requests get 503" : "No replica is registered: requests get 503");
  } else {
    status.className = "status good";
    setText(status, ready === 1 ? "1 replica is ready" : `${ready} replicas are ready`);
  }
}

function showProblem(problem) {
  if (problem instanceof KeyWanted) {
    askForKey(apiKey.get() === null ? "" : "The router does not know this key.");
    return;
  }
  const status = byId("status");
  status.className = "status bad";
  document.body.classList.add("stale");
  const what = problem.message.startsWith("status") ? `The router answers with ${problem.message}` : "The router does not answer";
  setText(status, lastAnswer ? `${what}. What you see is of ${timeOfDay(lastAnswer)}.` : `${what}.`);
}

function showContent(visible) {
  byId("content").hidden = !visible;
  byId("sign-in").hidden = visible;
  byId("pause").hidden = !visible;
  byId("forget").hidden = apiKey.get() === null;
}

function askForKey(reason) {
  turn += 1;
  latestSearch += 1;
  clearTimeout(waiting);
  apiKey.forget();
  // What a key has shown must not stay behind for whoever comes next.
  workflowRows.show([], () => "");
  replicaRows.show([], () => "");
  showContent(false);
  byId("status").className = "status";
  setText(byId("status"), "Signed out");
  setText(byId("key-problem"), reason);
  byId("key").focus();
}

byId("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  const key = byId("key").value.trim();
  byId("key").value = "";
  // Nothing else fits into a header.
  if (!/^[\x21-\x7e]+$/.test(key)) {
    askForKey("The router does not know this key.");
    return;
  }
  apiKey.set(key);
  workflowsDue = 0;
  refresh();
});

byId("forget").addEventListener("click", () => askForKey(""));

byId("pause").addEventListener("click", () => {
  paused = !paused;
  byId("pause").setAttribute("aria-pressed", String(paused));
  setText(byId("pause"), paused ? "Go on" : "Pause");
  if (paused) clearTimeout(waiting);
  else refresh();
});

let typing = null;
for (const id of ["search", "state", "limit"]) {
  byId(id).addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => {
      refreshWorkflows().catch(showProblem);
    }, TYPING_MS);
  });
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && !paused) refresh();
});

refresh();
