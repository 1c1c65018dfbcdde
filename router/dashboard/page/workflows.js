"use strict";

const MOST_AGENTS = 6;

function workflowRow() {
  const name = element("th", { scope: "row", class: "name" });
  const state = element("span", { class: "tag" });
  const replica = element("td", { class: "name" });
  const agent = element("div");
  const agents = element("div", { class: "quiet optional" });
  const numbers = Array.from({ length: 6 }, () => element("td", { class: "number" }));
  const [calls, prompt, cached, output, age, seen] = numbers;
  output.classList.add("optional");
  age.classList.add("optional");
  const row = element("tr", {}, name, element("td", {}, state), replica,
    element("td", { class: "name" }, agent, agents), ...numbers);

  function update({ workflow, now }) {
    setText(name, workflow.id);
    setText(state, workflow.state);
    setAttribute(state, "class", workflow.state === "active" ? "tag good" : "tag quiet");
    setText(replica, workflow.replica);
    setText(agent, workflow.agent || NOTHING);
    setText(agents, workflow.agents.length > 1 ? `of ${listed(workflow.agents)}` : "");
    setText(calls, count(workflow.step));
    setText(prompt, count(workflow.prompt_tokens));
    setText(cached, percent(shareOf(workflow.cached_tokens, workflow.prompt_tokens)));
    setAttribute(cached, "title", `${count(workflow.cached_tokens)} tokens`);
    setText(output, count(workflow.completion_tokens));
    setText(age, span(now - workflow.created_at));
    setText(seen, `${span(now - workflow.last_seen)} ago`);
  }
  return { row, update };
}

function listed(names) {
  const rest = names.length - MOST_AGENTS;
  return names.slice(0, MOST_AGENTS).join(", ") + (rest > 0 ? `, ${rest} more` : "");
}

const workflowRows = new Rows(byId("workflows"), 10, "No workflow.", workflowRow);

/** The question that the filters ask. */
function workflowsPath() {
  const asked = new URLSearchParams({ limit: byId("limit").value });
  if (byId("state").value) asked.set("state", byId("state").value);
  if (byId("search").value.trim()) asked.set("search", byId("search").value.trim());
  return `v1/workflows?${asked}`;
}

function showWorkflows({ data, total }, now) {
  const filtered = byId("search").value.trim() || byId("state").value;
  setText(workflowRows.emptyCell, filtered ? "No workflow fits." : "No workflow is known.");
  workflowRows.show(data.map((workflow) => ({ workflow, now })), (item) => item.workflow.id);
  const shown = data.length < total ? `latest ${count(data.length)} of ${count(total)}` : count(total);
  setText(byId("workflows-count"), filtered ? `${shown} that fit` : shown);
}
