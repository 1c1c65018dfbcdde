"use strict";

/** Heartbeats come every second; an entry lives for three. */
const LATE_HEARTBEAT_S = 3;

const STATE_CLASS = { ready: "good", starting: "warn", draining: "warn" };

function replicaRow() {
  const name = element("th", { scope: "row", class: "name" });
  const state = element("span", { class: "tag" });
  const workflows = element("td", { class: "number" });
  const queue = element("td", { class: "number optional" });
  const kvText = element("div");
  const active = element("span", { class: "active" });
  const retired = element("span", { class: "retired" });
  const bar = element("div", { class: "bar", role: "img" }, active, retired);
  const hits = element("td", { class: "number" });
  const forecast = element("td", { class: "number optional" });
  const heartbeat = element("td", { class: "number" });
  const model = element("div");
  const url = element("div", { class: "quiet" });
  const row = element("tr", {}, name, element("td", {}, state), workflows, queue,
    element("td", {}, kvText, bar), hits, forecast, heartbeat,
    element("td", { class: "optional name" }, model, url));

  function update({ replica, now }) {
    setText(name, replica.id);
    const shown = replica.reachable ? replica.state : "out of reach";
    setText(state, shown);
    setAttribute(state, "class", `tag ${STATE_CLASS[shown] ?? "bad"}`);
    setText(workflows, count(replica.pinned_workflows));
    setText(queue, `${count(replica.running_requests)} / ${count(replica.queued_requests)}`);
    const total = replica.kv_tokens_total;
    const used = replica.kv_tokens_active + replica.kv_tokens_retired;
    setText(kvText, `${shortCount(used)} of ${shortCount(total)}`);
    active.style.width = `${100 * (shareOf(replica.kv_tokens_active, total) ?? 0)}%`;
    retired.style.width = `${100 * (shareOf(replica.kv_tokens_retired, total) ?? 0)}%`;
    setAttribute(bar, "aria-label",
      `${count(replica.kv_tokens_active)} active, ${count(replica.kv_tokens_retired)} retired of ${count(total)} tokens`);
    setAttribute(bar, "title", bar.getAttribute("aria-label"));
    setText(hits, percent(replica.hit_rate));
    setText(forecast, percent(replica.forecast_accuracy));
    const silent = replica.updated_at ? now - replica.updated_at : null;
    setText(heartbeat, silent === null ? NOTHING : `${span(silent)} ago`);
    heartbeat.classList.toggle("problem", silent !== null && silent > LATE_HEARTBEAT_S);
    setText(model, replica.model);
    setText(url, replica.url);
  }
  return { row, update };
}

const replicaRows = new Rows(byId("replicas"), 9, "No replica is registered.", replicaRow);

/** Shows them; how many take new workflows. */
function showReplicas({ data, now }) {
  replicaRows.show(data.map((replica) => ({ replica, now })), (item) => item.replica.id);
  const ready = data.filter((replica) => replica.state === "ready" && replica.reachable).length;
  setText(byId("replicas-count"), `${ready} of ${data.length} ready`);
  return ready;
}
