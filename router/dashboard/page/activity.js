"use strict";

/** "Now" is the mean of the last minute: a single interval says little. */
const NOW_S = 60;

function showActivity(activity) {
  const { points, interval_s: interval } = activity;
  const latest = points.slice(-Math.round(NOW_S / interval));
  const sum = (name, over) => over.reduce((total, point) => total + point[name], 0);
  const rate = (name) => sum(name, latest) / (latest.length * interval);
  const last = (name) => latest.map((point) => point[name]).filter((value) => value !== null).at(-1) ?? null;

  drawChart(byId("chart-requests"), {
    title: "Requests per second",
    now: rate("requests").toFixed(1),
    detail: `failed ${rate("failed").toFixed(1)}`,
    lines: [
      { values: points.map((point) => point.requests / interval) },
      { values: points.map((point) => (point.failed ? point.failed / interval : null)), className: "bad" },
    ],
    format: (value) => value.toFixed(1),
  });
  drawChart(byId("chart-hits"), {
    title: "Prompt tokens cached",
    now: percent(shareOf(sum("cached_tokens", latest), sum("prompt_tokens", latest))),
    detail: `${shortCount(sum("prompt_tokens", latest))} prompt tokens in the last minute`,
    lines: [{ values: points.map((point) => shareOf(point.cached_tokens, point.prompt_tokens)) }],
    top: 1,
    format: percent,
  });
  drawChart(byId("chart-ttft"), {
    title: "Time to first token, median",
    now: span(last("ttft_p50_s")),
    detail: `p95 ${span(last("ttft_p95_s"))}`,
    detailClass: "second",
    lines: [
      { values: points.map((point) => point.ttft_p50_s) },
      { values: points.map((point) => point.ttft_p95_s), className: "second" },
    ],
    format: span,
  });
  showReasons(activity);
  setText(byId("scope"), activity.scope === "fleet"
    ? "all routers"
    : "this router alone: Redis does not answer, pins are kept from memory");
  byId("scope").classList.toggle("problem", activity.scope !== "fleet");
}

function showReasons({ statuses, broken_answers: broken, pin_moves: moves, retries }) {
  const entries = [
    ...named("answers", statuses, (status) => Number(status) >= 400 && status !== "499"),
    ...named("broken off", broken, (reason) => reason !== "client_left"),
    ...named("workflows moved", moves, () => true),
    ...(retries ? [["sent to a second replica", retries, true]] : []),
  ];
  byId("reasons").replaceChildren(
    ...entries.map(([label, value, bad]) =>
      element("div", {}, element("dt", {}, label), element("dd", bad ? { class: "bad" } : {}, count(value)))),
  );
}

function named(prefix, counts, isBad) {
  return Object.entries(counts)
    .filter(([, value]) => value > 0)
    .map(([name, value]) => [`${prefix}: ${name.replaceAll("_", " ")}`, value, isBad(name)]);
}
