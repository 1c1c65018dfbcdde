"use strict";

const NOTHING = "–";
const wholeNumbers = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const shortNumbers = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** 12,345; a dash for what is not known. */
function count(value) {
  return value === null || value === undefined ? NOTHING : wholeNumbers.format(value);
}

/** 12.3K, for what is compared at a glance. */
function shortCount(value) {
  return shortNumbers.format(value);
}

/** 41.2 %, of a share between 0 and 1. */
function percent(share) {
  return share === null || share === undefined || Number.isNaN(share)
    ? NOTHING
    : `${(100 * share).toFixed(1)} %`;
}

function shareOf(part, whole) {
  return whole > 0 ? part / whole : null;
}

/** A span in its largest unit: 0.25 s, 41 s, 7 min, 3 h, 2 d. */
function span(seconds) {
  if (seconds === null || seconds === undefined) return NOTHING;
  const s = Math.max(0, seconds);
  if (s < 10) return `${s.toFixed(s < 1 ? 2 : 1)} s`;
  if (s < 90) return `${Math.round(s)} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  if (s < 129600) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} d`;
}

function timeOfDay(date) {
  return date.toLocaleTimeString("en-GB");
}
