// Mouse, pen and fingers on the stage.

import { asMark, confirm, drawBox, place, toggleLink } from "./edits.js";
import { say } from "./messages.js";
import { askName, closeNamer, isNaming } from "./namer.js";
import { canvas, clampToPicture, cursor, drag, inside, panBy, pointUnder, toPicture, zoomAt } from "./stage.js";
import { changed, chooseKeypoint, isMarked, nextKeypoint, pointOf, shownObject, shownPicture, state } from "./state.js";
import { isProbing, probe } from "./views.js";

const fingers = new Map();
let gesture = null; // {kind, x, y, moved, ...}
export const held = { space: false };

const at = (event) => {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};

canvas.addEventListener("pointerdown", (event) => {
  const [x, y] = at(event);
  fingers.set(event.pointerId, [x, y]);
  try {
    canvas.setPointerCapture(event.pointerId);
  } catch {
    // a finger that has left already
  }
  canvas.focus({ preventScroll: true });
  cursor.isVisible = false;
  if (isNaming()) closeNamer();
  if (fingers.size === 2) {
    gesture = pinchStart();
    drag.point = drag.box = null;
    return;
  }
  if (shownPicture()) gesture = begin(event, x, y);
});

function begin(event, x, y) {
  const start = { x, y, fromX: x, fromY: y, moved: false };
  if (event.button === 1 || event.button === 2 || held.space || state.tool === "pan") return { ...start, kind: "pan" };
  if (isProbing() && state.tool === "mark") return { ...start, kind: "probe" };
  const hit = pointUnder(x, y, event.pointerType === "touch" ? 22 : 11);
  if (state.tool === "box") return { ...start, kind: "box", at: toPicture(x, y) };
  if (state.tool === "link") return { ...start, kind: "link", hit };
  if (!hit) return { ...start, kind: event.pointerType === "touch" ? "tap" : "click" };
  const wasChosen = state.keypoint === hit.point.keypoint && state.object === hit.object.id;
  state.object = hit.object.id;
  chooseKeypoint(hit.point.keypoint);
  const [px, py] = toPicture(x, y);
  return { ...start, kind: "point", hit, wasChosen, offset: [hit.point.x - px, hit.point.y - py], before: asMark(hit.object, hit.point.keypoint) };
}

canvas.addEventListener("pointermove", (event) => {
  const [x, y] = at(event);
  if (fingers.has(event.pointerId)) fingers.set(event.pointerId, [x, y]);
  if (!gesture) return hover(x, y);
  if (gesture.kind === "pinch") return pinchMove();
  if (Math.hypot(x - gesture.fromX, y - gesture.fromY) > (event.pointerType === "touch" ? 8 : 3)) gesture.moved = true;
  if (gesture.kind === "tap" && gesture.moved) gesture.kind = "pan";
  move(x, y);
  [gesture.x, gesture.y] = [x, y];
});

function move(x, y) {
  const picture = shownPicture();
  if (!picture || !gesture.moved) return;
  if (gesture.kind === "pan") panBy(x - gesture.x, y - gesture.y);
  if (gesture.kind === "point") {
    const [px, py] = toPicture(x, y);
    const [cx, cy] = clampToPicture(picture, px + gesture.offset[0], py + gesture.offset[1]);
    drag.point = { object: gesture.hit.object.id, keypoint: gesture.hit.point.keypoint, x: cx, y: cy };
  }
  if (gesture.kind === "box") {
    const [ax, ay] = clampToPicture(picture, ...gesture.at);
    const [bx, by] = clampToPicture(picture, ...toPicture(x, y));
    drag.box = [Math.min(ax, bx) + 0.5, Math.min(ay, by) + 0.5, Math.max(ax, bx) + 0.5, Math.max(ay, by) + 0.5];
  }
  changed("stage");
}

function finish(event) {
  const ended = gesture;
  fingers.delete(event.pointerId);
  if (ended?.kind === "pinch") {
    if (fingers.size === 0) gesture = null;
    return;
  }
  gesture = null;
  const picture = shownPicture();
  if (!ended || !picture) return;
  const point = drag.point;
  const box = drag.box;
  drag.point = drag.box = null;
  changed("stage");
  if (event.type === "pointercancel") return;
  const object = shownObject();
  if (ended.kind === "box" && box && box[2] - box[0] > 3 && box[3] - box[1] > 3) drawBox(picture, box);
  else if (ended.kind === "link" && ended.hit) linkStep(ended.hit.point.keypoint);
  else if (ended.kind === "probe") probeAt(object, picture, ...toPicture(ended.x, ended.y));
  else if (ended.kind === "point" && point) place(ended.hit.object, point.keypoint, point.x, point.y, ended.before);
  else if (ended.kind === "point" && ended.wasChosen) confirm(ended.hit.object, [ended.hit.point.keypoint]);
  else if ((ended.kind === "click" || ended.kind === "tap") && !ended.moved) markAt(object, picture, ...toPicture(ended.x, ended.y));
}
canvas.addEventListener("pointerup", finish);
canvas.addEventListener("pointercancel", finish);
canvas.addEventListener("contextmenu", (event) => event.preventDefault());

function probeAt(object, picture, x, y) {
  if (inside(picture, x, y)) probe(object.id, x, y);
}

// A click on the picture: the chosen point comes here; where none is chosen, a new one is named.
export function markAt(object, picture, x, y) {
  if (!inside(picture, x, y)) return;
  const keypoint = state.keypoint;
  if (keypoint === null) {
    askName(x, y);
    return;
  }
  const wasOpen = !isMarked(pointOf(object, keypoint));
  place(object, keypoint, x, y);
  if (wasOpen) chooseKeypoint(nextKeypoint());
}

export function linkStep(keypoint) {
  if (state.linkFrom === null) {
    state.linkFrom = keypoint;
    say("Choose the point to link it with");
  } else {
    if (state.linkFrom !== keypoint) toggleLink("skeleton", state.linkFrom, keypoint);
    state.linkFrom = null;
  }
  changed("stage");
}

function hover(x, y) {
  const hit = shownPicture() && state.tool !== "pan" ? pointUnder(x, y) : null;
  const next = hit ? { object: hit.object.id, keypoint: hit.point.keypoint } : null;
  if (next?.object === state.hover?.object && next?.keypoint === state.hover?.keypoint) return;
  state.hover = next;
  canvas.style.cursor = state.tool === "pan" || held.space ? "grab" : next ? (state.tool === "link" ? "pointer" : "move") : "crosshair";
  changed("stage");
}

// --- zoom ------------------------------------------------------------------------------------------------------------------

canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const [x, y] = at(event);
  if (event.shiftKey) panBy(-event.deltaY || -event.deltaX, 0);
  else zoomAt(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), x, y);
}, { passive: false });

function pinchStart() {
  const [[ax, ay], [bx, by]] = [...fingers.values()];
  return { kind: "pinch", distance: Math.hypot(ax - bx, ay - by), x: (ax + bx) / 2, y: (ay + by) / 2 };
}

function pinchMove() {
  if (fingers.size < 2) return;
  const now = pinchStart();
  panBy(now.x - gesture.x, now.y - gesture.y);
  zoomAt(now.distance / Math.max(1, gesture.distance), now.x, now.y);
  gesture = now;
}
