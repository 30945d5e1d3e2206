// The lists beside the stage: pictures, points of the picture, the chosen point, objects.

import { confirm, markAbsent, removeKeypoint, removeObject, removePicture, renameKeypoint, toggleLink, unmark } from "./edits.js";
import { stepKeypoint } from "./keys.js";
import { mirrorName } from "./namer.js";
import { canvas } from "./stage.js";
import {
  changed, checked, chooseKeypoint, colourOf, isMarked, isShown, isUnsure, keypointOf, onChange, pictureOrder, pointOf,
  shownObject, shownPicture, state,
} from "./state.js";

const SVG = "http://www.w3.org/2000/svg";
const element = (tag, attributes = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), attributes);
  made.append(...children);
  return made;
};

// --- pictures ---------------------------------------------------------------------------------------------------------------

const list = document.getElementById("pictures");
const rows = new Map();

function rowOf(picture) {
  if (rows.has(picture.id)) return rows.get(picture.id);
  const row = element("li", { id: `picture-${picture.id}` });
  row.setAttribute("role", "option");
  const thumb = element("div", { className: "thumb" });
  const img = element("img", { loading: "lazy", alt: "", src: `/api/pictures/${picture.id}/thumbnail`, width: picture.width, height: picture.height });
  const marks = document.createElementNS(SVG, "svg");
  marks.setAttribute("viewBox", `0 0 ${picture.width} ${picture.height}`);
  marks.setAttribute("aria-hidden", "true");
  thumb.append(img, marks);
  const file = element("span", { className: "file", textContent: picture.path.split("/").at(-1), title: picture.path });
  const badge = element("span", { className: "badge" });
  // An option of a list may hold no button; by keyboard it is Delete in the list.
  const remove = element("span", { className: "remove", textContent: "×", title: "Remove from the project" });
  remove.setAttribute("aria-hidden", "true");
  remove.addEventListener("click", (event) => {
    event.stopPropagation();
    removePicture(picture.id);
  });
  row.append(thumb, element("div", { className: "caption" }, file, badge), remove);
  row.addEventListener("click", () => {
    document.dispatchEvent(new CustomEvent("show-picture", { detail: picture.id }));
    canvas.focus({ preventScroll: true });
  });
  rows.set(picture.id, row);
  drawRow(picture);
  return row;
}

function drawRow(picture) {
  const row = rows.get(picture.id);
  const marks = row.querySelector("svg");
  const radius = Math.max(picture.width, picture.height) / 48;
  marks.replaceChildren(...picture.objects.flatMap((object) => object.points.filter(isShown).map((point) => {
    const dot = document.createElementNS(SVG, "circle");
    const values = { cx: point.x + 0.5, cy: point.y + 0.5, r: radius, fill: isMarked(point) ? colourOf(point.keypoint) : "rgb(10 12 20 / 50%)",
      stroke: isMarked(point) ? "#fff" : colourOf(point.keypoint), "stroke-width": radius / 2.2, opacity: isUnsure(point) ? 0.35 : 1 };
    for (const [name, value] of Object.entries(values)) dot.setAttribute(name, value);
    return dot;
  })));
  const { done, total } = checked(picture);
  const badge = row.querySelector(".badge");
  const found = picture.objects.some((object) => object.points.some((point) => point.kind === "found"));
  badge.className = picture.problem ? "badge bad" : total && done === total ? "badge done" : "badge";
  badge.textContent = picture.problem ? "unreadable" : total && done === total ? "✓ done" : total ? `${done}/${total}` : "";
  badge.title = picture.problem ?? "";
  row.dataset.state = picture.problem ? "bad" : found ? "found" : done ? "marked" : "open";
  row.setAttribute("aria-label", `${picture.path}, ${done} of ${total} points checked${picture.problem ? ", unreadable" : ""}`);
}

function drawPictures(now) {
  const order = pictureOrder();
  document.getElementById("picture-count").textContent = order.length;
  const wanted = order.map(rowOf);
  const isSame = wanted.length === list.children.length && wanted.every((row, index) => list.children[index] === row);
  if (!isSame) list.replaceChildren(...wanted);
  for (const [number] of rows) if (!state.pictures.has(number)) rows.delete(number);
  const all = now.has("project");
  for (const picture of order) {
    if (all || now.has(`picture-${picture.id}`) || picture.id === state.picture) drawRow(picture);
    rows.get(picture.id).setAttribute("aria-selected", String(picture.id === state.picture));
  }
  if (state.picture) list.setAttribute("aria-activedescendant", `picture-${state.picture}`);
  else list.removeAttribute("aria-activedescendant");
  document.getElementById("empty").hidden = order.length > 0;
}

export function revealRow(number) {
  rows.get(number)?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

list.addEventListener("keydown", (event) => {
  if (event.key === "Delete" && state.picture !== null) {
    event.stopPropagation();
    removePicture(state.picture);
  }
  const by = { ArrowDown: 1, ArrowUp: -1, ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!by) return;
  event.preventDefault();
  document.dispatchEvent(new CustomEvent("step-picture", { detail: by }));
});

// --- points of the picture ----------------------------------------------------------------------------------------------------

const points = document.getElementById("keypoints");

function stateOf(point) {
  if (!point) return ["", "not marked"];
  if (point.kind === "placed") return ["sure", "placed"];
  if (point.kind === "confirmed") return ["sure", "confirmed"];
  if (point.kind === "absent") return ["", "absent"];
  return [isUnsure(point) ? "unsure" : "", `${isUnsure(point) ? "absent? " : ""}${point.score.toFixed(2)}`];
}

function drawKeypoints() {
  const object = shownObject();
  document.getElementById("keypoint-count").textContent = state.project.keypoints.length;
  points.replaceChildren(...state.project.keypoints.map((keypoint, index) => {
    const point = pointOf(object, keypoint.id);
    const [tone, words] = stateOf(point);
    const dot = element("span", { className: `dot ${!point || point.kind === "absent" ? "none" : point.kind}` });
    dot.style.setProperty("--dot", colourOf(keypoint.id));
    const row = element("li", { id: `keypoint-${keypoint.id}` }, dot, element("span", { className: "name", textContent: keypoint.name }),
      element("span", { className: `state ${tone}`, textContent: words }), element("span", { className: "number", textContent: index < 9 ? index + 1 : "·" }));
    row.setAttribute("role", "option");
    row.setAttribute("aria-selected", String(keypoint.id === state.keypoint));
    row.addEventListener("click", () => {
      chooseKeypoint(keypoint.id);
      canvas.focus();
    });
    return row;
  }));
  if (state.keypoint) points.setAttribute("aria-activedescendant", `keypoint-${state.keypoint}`);
  else points.removeAttribute("aria-activedescendant");
  points.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  const open = object?.points.filter((point) => point.kind === "found" && !isUnsure(point)).length ?? 0;
  document.getElementById("confirm-all").disabled = !open;
  drawChosen(object);
  drawObjects();
  drawProposal();
}

points.addEventListener("keydown", (event) => {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!by) return;
  event.preventDefault();
  stepKeypoint(by);
});

function drawChosen(object) {
  const box = document.getElementById("chosen");
  const keypoint = keypointOf(state.keypoint);
  box.hidden = !keypoint || !object;
  if (box.hidden) return;
  const point = pointOf(object, keypoint.id);
  const dot = element("span", { className: "dot" });
  dot.style.setProperty("--dot", colourOf(keypoint.id));
  const facts = element("dl");
  const fact = (name, value) => facts.append(element("dt", { textContent: name }), element("dd", { textContent: value }));
  if (point && isShown(point)) fact("Place", `${point.x.toFixed(1)}, ${point.y.toFixed(1)}`);
  if (point?.kind === "found") {
    const [xx, , yy] = point.covariance ?? [0, 0, 0];
    fact("Spread", `± ${Math.sqrt((xx + yy) / 2).toFixed(1)} px`);
    fact("Score", point.score.toFixed(3));
    fact("Presence", point.presence.toFixed(3));
  }
  const pair = state.project.pairs.find((two) => two.includes(keypoint.id));
  if (pair) fact("Pair", `⇄ ${keypointOf(pair[0] === keypoint.id ? pair[1] : pair[0])?.name ?? ""}`);
  const row = element("div", { className: "row" });
  const button = (text, run, enabled = true) => row.append(element("button", { textContent: text, onclick: run, disabled: !enabled }));
  button("Confirm", () => confirm(object, [keypoint.id]), point?.kind === "found");
  button("Not here", () => markAbsent(object, keypoint.id), point?.kind !== "absent");
  button("Unmark", () => unmark(object, keypoint.id), isMarked(point));
  button("Rename", () => askRename(keypoint));
  button("Remove", () => removeKeypoint(keypoint.id));
  box.replaceChildren(element("div", { className: "title" }, dot, element("span", { textContent: keypoint.name })), facts, row);
}

function askRename(keypoint) {
  const box = document.getElementById("chosen");
  const input = element("input", { value: keypoint.name, maxLength: 60 });
  input.setAttribute("aria-label", "New name");
  const form = element("form", { className: "line" }, input, element("button", { className: "primary", textContent: "Rename" }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (input.value.trim()) renameKeypoint(keypoint.id, input.value.trim());
    canvas.focus();
  });
  box.querySelector(".row").replaceWith(form);
  input.focus();
  input.select();
}

function drawObjects() {
  const picture = shownPicture();
  const boxed = picture?.objects.filter((object) => object.box) ?? [];
  const chips = boxed.length ? picture.objects.map((object, index) => {
    const chip = element("button", { textContent: `Animal ${index + 1}` });
    chip.setAttribute("aria-pressed", String(object.id === state.object));
    chip.addEventListener("click", () => {
      state.object = object.id;
      changed("stage", "keypoints");
    });
    return chip;
  }) : [];
  const chosen = shownObject();
  if (chosen?.box) {
    const remove = element("button", { textContent: "Remove box", onclick: () => removeObject(picture, chosen) });
    chips.push(remove);
  }
  document.getElementById("objects").replaceChildren(...chips);
}

// Two names that differ only in left and right are proposed as a pair.
function drawProposal() {
  const box = document.getElementById("pair-proposal");
  const paired = new Set(state.project.pairs.flat());
  const byName = new Map(state.project.keypoints.map((point) => [point.name, point]));
  const first = state.project.keypoints.find((point) => {
    const other = byName.get(mirrorName(point.name));
    return other && other.id !== point.id && !paired.has(point.id) && !paired.has(other.id);
  });
  if (!first) return box.replaceChildren();
  const second = byName.get(mirrorName(first.name));
  const words = element("span", { textContent: `${first.name} ⇄ ${second.name}` });
  const button = element("button", { textContent: "Make a pair", onclick: () => toggleLink("pair", first.id, second.id) });
  return box.replaceChildren(element("div", { className: "proposal" }, words, button));
}

onChange(["pictures", "project"], drawPictures);
onChange(["keypoints", "project", "stage"], drawKeypoints);
