// Maps that explain: asked for when a view is chosen, drawn over the picture, with a legend.

import { call } from "./api.js";
import { toast } from "./messages.js";
import { changed, keypointOf, onChange, state } from "./state.js";

const TITLES = {
  similarity: "Similarity to the marked point", saliency: "Saliency", shaped_saliency: "Saliency as it was learnt to be shaped",
  attention: "Attention of the found point",
};
const PLACES = { "at:alike": "Looks like the place that I click", "at:attention": "Attention from the place that I click" };
const BY_KEYPOINT = (name) => name === "similarity" || name === "attention" || name.startsWith("probability_");
const chosen = { name: "none", strength: 0.65, known: new Map(), place: null, placeViews: null, asked: null };
const select = document.getElementById("view");
let offered = "";

export const isProbing = () => chosen.name in PLACES;
const titleOf = (name) => TITLES[name] ?? PLACES[name] ?? `Probability, ${name.replace("probability_", "")} × ${name.replace("probability_", "")} cells`;

// Colours of heat, dark to bright, clear where the map is low.
const STOPS = [[20, 12, 70, 0], [82, 20, 130, 120], [180, 45, 110, 190], [245, 125, 60, 225], [252, 235, 140, 250]];
const TABLE = Array.from({ length: 256 }, (_, value) => {
  const at = (value / 255) * (STOPS.length - 1);
  const low = Math.min(STOPS.length - 2, Math.floor(at));
  return STOPS[low].map((from, channel) => Math.round(from + (STOPS[low + 1][channel] - from) * (at - low)));
});

function paint(map, row) {
  const [, height, width] = map.shape;
  const bytes = Uint8Array.from(atob(map.values), (letter) => letter.charCodeAt(0));
  const painted = document.createElement("canvas");
  [painted.width, painted.height] = [width, height];
  const pixels = new ImageData(width, height);
  const part = bytes.subarray(row * width * height, (row + 1) * width * height);
  const [low, high] = part.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [255, 0]);
  part.forEach((value, index) => pixels.data.set(TABLE[Math.round(((value - low) / Math.max(1, high - low)) * 255)], 4 * index));
  painted.getContext("2d").putImageData(pixels, 0, 0);
  const real = (value) => map.low + (value / 255) * (map.high - map.low);
  return { canvas: painted, low: real(low), high: real(high) };
}

export function overlayFor(object, keypoint) {
  if (chosen.name === "none" || object === null) return null;
  const source = isProbing() ? chosen.placeViews : chosen.known.get(object);
  if (!source || source.object !== object) return null;
  const map = source.views[chosen.name.replace("at:", "")];
  if (!map) return null;
  const row = !isProbing() && BY_KEYPOINT(chosen.name) ? source.keypoints.indexOf(keypoint) : 0;
  if (row < 0 || row >= map.shape[0]) return null;
  map.painted ??= new Map();
  if (!map.painted.has(row)) map.painted.set(row, paint(map, row));
  const painted = map.painted.get(row);
  return { ...painted, window: source.window, strength: chosen.strength };
}

async function ask(object) {
  if (object === null || chosen.known.has(object) || chosen.asked === object) return;
  chosen.asked = object;
  try {
    const views = await call("GET", `/api/objects/${object}/views`);
    chosen.known.set(object, views);
    const grids = Object.keys(views.views).filter((name) => name.startsWith("probability_"));
    if (chosen.name === "similarity" && !views.views.similarity) chosen.name = grids.at(-1) ?? "none"; // a network's own
    if (chosen.known.size > 30) chosen.known.delete(chosen.known.keys().next().value);
  } catch (problem) {
    toast(problem.message, { bad: true });
    chosen.name = select.value = "none";
  }
  chosen.asked = null;
  offer();
  changed("stage", "legend");
}

export async function probe(object, x, y) {
  try {
    chosen.placeViews = await call("GET", `/api/objects/${object}/views/at?x=${x}&y=${y}`);
  } catch (problem) {
    toast(problem.message, { bad: true });
  }
  changed("stage", "legend");
}

// The views that this model has; before the first was asked for, saliency and similarity (of a network: its finest grid).
function offer() {
  const known = [...chosen.known.values()].at(-1);
  const names = known ? Object.keys(known.views) : ["saliency", "similarity"];
  const attends = names.includes("attention");
  const all = ["none", ...names, "at:alike", ...(attends ? ["at:attention"] : [])];
  if (all.join() === offered) return;
  offered = all.join();
  select.replaceChildren(...all.map((name) => new Option(name === "none" ? "Picture only" : titleOf(name), name)));
  select.value = all.includes(chosen.name) ? chosen.name : "none";
}

// Maps depend on all marks: after a change they are asked for again, once it is quiet.
let forgetting = null;
export function forget() {
  clearTimeout(forgetting);
  forgetting = setTimeout(() => {
    chosen.known.clear();
    if (chosen.name !== "none" && !isProbing()) ask(state.object);
  }, 500);
}

function legend() {
  const box = document.getElementById("legend");
  const overlay = overlayFor(state.object, state.keypoint);
  const hint = document.getElementById("view-hint");
  const needsPoint = BY_KEYPOINT(chosen.name) && !isProbing();
  hint.textContent = isProbing() ? "Click a place in the picture." : needsPoint && state.keypoint === null ? "Choose a point." : "";
  box.hidden = !overlay;
  if (!overlay) return;
  const bar = document.createElement("canvas");
  [bar.width, bar.height] = [256, 1];
  const pixels = new ImageData(256, 1);
  TABLE.forEach(([r, g, b], index) => pixels.data.set([r, g, b, 255], 4 * index));
  bar.getContext("2d").putImageData(pixels, 0, 0);
  const title = document.createElement("strong");
  const name = needsPoint ? keypointOf(state.keypoint)?.name : null;
  title.textContent = titleOf(chosen.name) + (name ? ` · ${name}` : "");
  const ends = document.createElement("div");
  ends.className = "ends";
  ends.append(overlay.low.toPrecision(2), Object.assign(document.createElement("span"), { textContent: overlay.high.toPrecision(2) }));
  box.replaceChildren(title, bar, ends);
}

export function chooseView(name) {
  if (![...select.options].some((option) => option.value === name)) return;
  select.value = name;
  chosen.name = name;
  if (name !== "none" && !isProbing()) ask(state.object);
  changed("stage", "legend");
}

select.addEventListener("change", () => chooseView(select.value));
document.getElementById("strength").addEventListener("input", (event) => {
  chosen.strength = Number(event.target.value);
  changed("stage");
});
onChange(["stage", "legend", "keypoints"], () => {
  if (chosen.name !== "none" && !isProbing()) ask(state.object);
  legend();
});
offer();
