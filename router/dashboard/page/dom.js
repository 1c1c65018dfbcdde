"use strict";

// Names of workflows and agents are whatever a client sent: they reach the page as text, never as markup.

const byId = (id) => document.getElementById(id);

/** An element with attributes, and children that are elements or text. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Writes only what changed, so that a selection or a screen reader is not disturbed. */
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function setAttribute(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/** Table rows that live as long as their item does. `build(item)` makes {row, update(item)}. */
class Rows {
  constructor(body, columns, emptyText, build) {
    this.body = body;
    this.build = build;
    this.shown = new Map();
    this.emptyCell = element("td", { colspan: String(columns) }, emptyText);
    this.empty = element("tr", { class: "empty" }, this.emptyCell);
  }

  show(items, keyOf) {
    const kept = new Map();
    for (const item of items) {
      const key = keyOf(item);
      const entry = this.shown.get(key) ?? this.build(item);
      entry.update(item);
      kept.set(key, entry);
    }
    const rows = [...kept.values()].map((entry) => entry.row);
    if (rows.length === 0) rows.push(this.empty);
    this.shown = kept;
    const before = this.body.children;
    if (rows.length !== before.length || rows.some((row, i) => row !== before[i])) {
      this.body.replaceChildren(...rows);
    }
  }
}
