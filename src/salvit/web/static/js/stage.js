// The stage: the picture with its boxes, links, points, ellipses and maps. Points are pixels of the file, their centres at
// integers; a pixel's edge is half a pixel further, hence the + 0.5 when they go to the screen.

import { overlayFor } from "./views.js";
import {
  changed, colourOf, isShown, isUnsure, keypointOf, onChange, pointOf, shownObject, shownPicture, state,
} from "./state.js";

export const canvas = document.getElementById("stage");
const pen = canvas.getContext("2d");
export const view = { scale: 1, x: 0, y: 0, isFitted: true };
export const drag = { point: null, box: null, hint: null }; // what moves under the pointer right now
export const cursor = { x: null, y: null, isVisible: false }; // where the keyboard would place a point
let image = null;
let imageOf = null;
const kept = new Map();

export const toScreen = (x, y) => [(x + 0.5) * view.scale + view.x, (y + 0.5) * view.scale + view.y];
export const toPicture = (x, y) => [(x - view.x) / view.scale - 0.5, (y - view.y) / view.scale - 0.5];

export function inside(picture, x, y) {
  return x >= -0.5 && y >= -0.5 && x <= picture.width - 0.5 && y <= picture.height - 0.5;
}

export function clampToPicture(picture, x, y) {
  return [Math.min(picture.width - 0.5, Math.max(-0.5, x)), Math.min(picture.height - 0.5, Math.max(-0.5, y))];
}

// --- size and zoom -------------------------------------------------------------------------------------------------------

export function fit() {
  const picture = shownPicture();
  if (!picture) return;
  const [width, height, margin] = [canvas.clientWidth, canvas.clientHeight, 28];
  view.scale = Math.min((width - 2 * margin) / picture.width, (height - 2 * margin) / picture.height, 12);
  view.x = (width - picture.width * view.scale) / 2;
  view.y = (height - picture.height * view.scale) / 2;
  view.isFitted = true;
  changed("stage");
}

export function zoomAt(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
  const scale = Math.min(40, Math.max(0.02, view.scale * factor));
  view.x = x - ((x - view.x) * scale) / view.scale;
  view.y = y - ((y - view.y) * scale) / view.scale;
  view.scale = scale;
  view.isFitted = false;
  changed("stage");
}

export function panBy(x, y) {
  view.x += x;
  view.y += y;
  view.isFitted = false;
  changed("stage");
}

export function reveal(x, y) {
  const [sx, sy] = toScreen(x, y);
  const margin = 40;
  if (sx < margin || sx > canvas.clientWidth - margin) view.x += canvas.clientWidth / 2 - sx;
  if (sy < margin || sy > canvas.clientHeight - margin) view.y += canvas.clientHeight / 2 - sy;
}

new ResizeObserver(() => {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(canvas.clientWidth * ratio);
  canvas.height = Math.round(canvas.clientHeight * ratio);
  if (view.isFitted) fit();
  changed("stage");
}).observe(canvas);

// --- pictures ------------------------------------------------------------------------------------------------------------

function load(number) {
  if (kept.has(number)) return kept.get(number);
  const element = new Image();
  element.decoding = "async";
  element.src = `/api/pictures/${number}/file`;
  element.addEventListener("load", () => changed("stage"));
  kept.set(number, element);
  if (kept.size > 8) kept.delete(kept.keys().next().value);
  return element;
}

export function showImage(number, neighbours) {
  image = load(number);
  imageOf = number;
  for (const other of neighbours) load(other);
}

// --- finding what lies under the pointer ---------------------------------------------------------------------------------

export function pointUnder(x, y, reach = 11) {
  let best = null;
  for (const object of shownPicture()?.objects ?? []) {
    for (const point of object.points) {
      if (!isShown(point)) continue;
      const [sx, sy] = toScreen(point.x, point.y);
      const bonus = object.id === state.object ? (point.keypoint === state.keypoint ? 3 : 1) : 0;
      const distance = Math.hypot(sx - x, sy - y) - bonus;
      if (distance <= reach && (!best || distance < best.distance)) best = { object, point, distance };
    }
  }
  return best;
}

// --- drawing -------------------------------------------------------------------------------------------------------------

function draw() {
  const ratio = window.devicePixelRatio || 1;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
  document.getElementById("zoom").value = `${Math.round(view.scale * 100)} %`;
  const picture = shownPicture();
  if (!picture) return;
  drawImage(picture);
  for (const object of picture.objects) drawBoxOf(object, picture.objects.length);
  for (const object of picture.objects) drawObject(object, object.id === state.object);
  if (drag.box) strokeBox(drag.box, "#ffffff", [6, 4]);
  if (cursor.isVisible && document.activeElement === canvas) drawCursor();
}

function drawImage(picture) {
  const [width, height] = [picture.width * view.scale, picture.height * view.scale];
  pen.save();
  pen.shadowColor = "rgb(0 0 0 / 30%)";
  pen.shadowBlur = 22;
  pen.shadowOffsetY = 4;
  pen.fillStyle = "#888";
  pen.fillRect(view.x, view.y, width, height);
  pen.restore();
  if (imageOf === picture.id && image?.complete && image.naturalWidth) {
    pen.imageSmoothingEnabled = view.scale < 3;
    pen.drawImage(image, view.x, view.y, width, height);
  }
  const overlay = overlayFor(state.object, state.keypoint);
  if (!overlay) return;
  const [x1, y1, x2, y2] = overlay.window;
  pen.save();
  pen.beginPath();
  pen.rect(view.x, view.y, width, height);
  pen.clip();
  pen.globalAlpha = overlay.strength;
  pen.imageSmoothingEnabled = true;
  const left = view.x + x1 * view.scale;
  const top = view.y + y1 * view.scale;
  pen.drawImage(overlay.canvas, left, top, (x2 - x1) * view.scale, (y2 - y1) * view.scale);
  pen.restore();
}

function strokeBox([x1, y1, x2, y2], colour, dash = []) {
  const [left, top] = [view.x + x1 * view.scale, view.y + y1 * view.scale];
  const [width, height] = [(x2 - x1) * view.scale, (y2 - y1) * view.scale];
  pen.setLineDash([]);
  pen.lineWidth = 4;
  pen.strokeStyle = "rgb(0 0 0 / 45%)";
  pen.strokeRect(left, top, width, height);
  pen.setLineDash(dash);
  pen.lineWidth = 2;
  pen.strokeStyle = colour;
  pen.strokeRect(left, top, width, height);
  pen.setLineDash([]);
}

function drawBoxOf(object, count) {
  if (!object.box) return;
  const isChosen = object.id === state.object;
  strokeBox(object.box, isChosen ? "#a5b4fc" : "rgb(255 255 255 / 70%)", isChosen || count === 1 ? [] : [5, 4]);
}

const placeOf = (object, point) =>
  drag.point && drag.point.object === object.id && drag.point.keypoint === point.keypoint ? drag.point : point;

function drawObject(object, isChosen) {
  pen.save();
  if (!isChosen) pen.globalAlpha = 0.75;
  drawLinks(object);
  const points = object.points.filter(isShown).sort((a, b) => (a.keypoint === state.keypoint) - (b.keypoint === state.keypoint));
  if (drag.point?.object === object.id && !pointOf(object, drag.point.keypoint)) points.push({ ...drag.point, kind: "placed" });
  for (const point of points) drawSpread(object, point);
  for (const point of points) drawPoint(object, point, isChosen);
  pen.restore();
}

function drawLinks(object) {
  pen.lineCap = "round";
  for (const [first, second] of state.project.skeleton) {
    const [a, b] = [pointOf(object, first), pointOf(object, second)];
    if (!a || !b || !isShown(a) || !isShown(b)) continue;
    const [from, to] = [placeOf(object, a), placeOf(object, b)];
    const [[x1, y1], [x2, y2]] = [toScreen(from.x, from.y), toScreen(to.x, to.y)];
    const gradient = pen.createLinearGradient(x1, y1, x2, y2);
    const alpha = isUnsure(a) || isUnsure(b) ? 0.25 : 0.95;
    gradient.addColorStop(0, colourOf(first, alpha));
    gradient.addColorStop(1, colourOf(second, alpha));
    for (const [width, colour] of [[5, `rgb(0 0 0 / ${0.35 * alpha})`], [2.6, gradient]]) {
      pen.lineWidth = width;
      pen.strokeStyle = colour;
      pen.beginPath();
      pen.moveTo(x1, y1);
      pen.lineTo(x2, y2);
      pen.stroke();
    }
  }
}

// Two standard deviations: seven of eight points lie inside, if the detector is right about itself.
function drawSpread(object, point) {
  if (point.kind !== "found" || !point.covariance || placeOf(object, point) !== point) return;
  const [xx, xy, yy] = point.covariance;
  const middle = (xx + yy) / 2;
  const off = Math.hypot((xx - yy) / 2, xy);
  const [x, y] = toScreen(point.x, point.y);
  const radius = (value) => Math.max(1, 2 * Math.sqrt(Math.max(0, value)) * view.scale);
  pen.beginPath();
  pen.ellipse(x, y, radius(middle + off), radius(middle - off), Math.atan2(2 * xy, xx - yy) / 2, 0, 2 * Math.PI);
  const isChosen = point.keypoint === state.keypoint && object.id === state.object;
  const alpha = isUnsure(point) ? 0.35 : 1;
  pen.fillStyle = colourOf(point.keypoint, (isChosen ? 0.22 : 0.09) * alpha);
  pen.fill();
  pen.lineWidth = isChosen ? 2 : 1.2;
  pen.setLineDash(isUnsure(point) ? [3, 4] : []);
  pen.strokeStyle = colourOf(point.keypoint, (isChosen ? 0.95 : 0.55) * alpha);
  pen.stroke();
  pen.setLineDash([]);
}

function drawPoint(object, point, isObjectChosen) {
  const { x: px, y: py } = placeOf(object, point);
  const [x, y] = toScreen(px, py);
  const isMoving = drag.point?.object === object.id && drag.point.keypoint === point.keypoint;
  const isChosen = isObjectChosen && point.keypoint === state.keypoint;
  const isHovered = state.hover?.object === object.id && state.hover.keypoint === point.keypoint;
  const isFound = point.kind === "found" && !isMoving;
  pen.save();
  if (isUnsure(point) && !isMoving) pen.globalAlpha *= isChosen || isHovered ? 0.7 : 0.35;
  const radius = isChosen ? 7 : 5.5;
  if (isChosen || isHovered || state.linkFrom === point.keypoint) ring(x, y, radius + 5, "rgb(255 255 255 / 92%)", 2);
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fillStyle = isFound ? "rgb(10 12 20 / 55%)" : colourOf(point.keypoint);
  pen.fill();
  ring(x, y, radius, isFound ? colourOf(point.keypoint) : "#ffffff", 2.2);
  ring(x, y, radius + 1.6, "rgb(0 0 0 / 55%)", 1);
  if (isFound) dotAt(x, y, colourOf(point.keypoint));
  if (point.kind === "confirmed" && !isMoving) tickAt(x, y);
  if ((state.labels && isObjectChosen) || isChosen || isHovered) label(keypointOf(point.keypoint)?.name ?? "", x + radius + 7, y, isChosen);
  pen.restore();
}

function ring(x, y, radius, colour, width) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.stroke();
}

function dotAt(x, y, colour) {
  pen.beginPath();
  pen.arc(x, y, 1.7, 0, 2 * Math.PI);
  pen.fillStyle = colour;
  pen.fill();
}

function tickAt(x, y) {
  pen.beginPath();
  pen.moveTo(x - 2.6, y + 0.2);
  pen.lineTo(x - 0.6, y + 2.2);
  pen.lineTo(x + 2.8, y - 2.2);
  pen.strokeStyle = "#0b1020";
  pen.lineWidth = 1.8;
  pen.stroke();
}

function label(text, x, y, isChosen) {
  pen.font = `${isChosen ? 600 : 500} 12px ui-sans-serif, system-ui, sans-serif`;
  const width = pen.measureText(text).width;
  pen.fillStyle = isChosen ? "rgb(30 27 75 / 92%)" : "rgb(12 14 22 / 66%)";
  pen.beginPath();
  pen.roundRect(x, y - 9, width + 12, 18, 5);
  pen.fill();
  pen.fillStyle = "#ffffff";
  pen.textBaseline = "middle";
  pen.fillText(text, x + 6, y + 0.5);
}

function drawCursor() {
  const [x, y] = toScreen(cursor.x, cursor.y);
  for (const [width, colour] of [[3, "rgb(0 0 0 / 60%)"], [1.4, "#ffffff"]]) {
    pen.lineWidth = width;
    pen.strokeStyle = colour;
    pen.beginPath();
    for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
      pen.moveTo(x + dx * 5, y + dy * 5);
      pen.lineTo(x + dx * 18, y + dy * 18);
    }
    pen.stroke();
  }
}

// The keyboard's cursor starts on the chosen point, or in the middle of the picture.
export function placeCursor() {
  const picture = shownPicture();
  const point = pointOf(shownObject(), state.keypoint);
  cursor.x = point && isShown(point) ? point.x : (picture.width - 1) / 2;
  cursor.y = point && isShown(point) ? point.y : (picture.height - 1) / 2;
}

onChange(["stage"], draw);
