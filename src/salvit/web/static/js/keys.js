// Everything by keyboard. The list below is also what the help shows.

import { confirm, mark, markAbsent, redo, undo, unmark } from "./edits.js";
import { askName, isNaming } from "./namer.js";
import { held, linkStep, markAt } from "./pointer.js";
import { canvas, clampToPicture, cursor, drag, fit, placeCursor, reveal, zoomAt } from "./stage.js";
import { changed, chooseKeypoint, isMarked, isShown, keypointOf, nextKeypoint, pointOf, shownObject, shownPicture, state } from "./state.js";
import { chooseView } from "./views.js";

export const KEYS = [
  ["Arrows", "move the chosen point or the cursor by 1 pixel (Shift: 10)"], ["Enter", "place, or confirm what was found"],
  ["[  ]", "previous, next point"], ["1 – 9", "choose a point"], ["A", "new point at the cursor"],
  ["C", "confirm the chosen point"], ["Shift+C", "confirm all points of the picture"], ["X", "it is not in this picture"],
  ["Delete", "remove the mark; in the list: the picture"], ["Ctrl+Z", "undo"], ["Ctrl+Shift+Z, Ctrl+Y", "redo"], ["D", "find in all pictures"],
  [",  .", "previous, next picture"], ["W", "picture most worth checking"], ["V", "mark"], ["B", "box"],
  ["L", "link the chosen point: once at each end"], ["H, Space", "pan"], ["+  −  0", "zoom in, out, whole picture"],
  ["T", "names on or off"], ["S", "saliency on or off"], ["E", "export"], ["Esc", "choose nothing, close"], ["?", "this list"],
];

const actions = {};
export const bind = (name, action) => {
  actions[name] = action;
};

export function setTool(tool) {
  state.tool = tool;
  state.linkFrom = null;
  canvas.style.cursor = tool === "pan" ? "grab" : "crosshair";
  changed("tools", "stage", "hint");
}

// --- moving by arrows: one change when the keys rest --------------------------------------------------------------------

const nudge = { timer: null };

function arrow(dx, dy) {
  const picture = shownPicture();
  const object = shownObject();
  if (!picture || !object) return;
  const point = pointOf(object, state.keypoint);
  if (state.keypoint !== null && point && isShown(point) && state.tool === "mark") {
    const from = drag.point ?? point;
    const [x, y] = clampToPicture(picture, from.x + dx, from.y + dy);
    drag.point = { object: object.id, keypoint: state.keypoint, x, y };
    reveal(x, y);
    clearTimeout(nudge.timer);
    nudge.timer = setTimeout(settleNudge, 350);
  } else {
    if (cursor.x === null || !cursor.isVisible) placeCursor();
    [cursor.x, cursor.y] = clampToPicture(picture, cursor.x + dx, cursor.y + dy);
    cursor.isVisible = true;
    reveal(cursor.x, cursor.y);
  }
  changed("stage");
}

export function settleNudge() {
  clearTimeout(nudge.timer);
  const object = shownObject();
  if (!drag.point || !object || nudge.timer === null) return;
  nudge.timer = null;
  const { keypoint, x, y } = drag.point;
  drag.point = null;
  mark(`move ${keypointOf(keypoint)?.name}`, [{ object: object.id, keypoint, kind: "placed", x, y }]);
}

// --- the other keys ---------------------------------------------------------------------------------------------------------

function enter() {
  const object = shownObject();
  const picture = shownPicture();
  if (!object) return;
  if (drag.point) return settleNudge();
  const point = pointOf(object, state.keypoint);
  if (state.tool === "link" && state.keypoint !== null) return linkStep(state.keypoint);
  if (point?.kind === "found") {
    confirm(object, [state.keypoint]);
    chooseKeypoint(nextKeypoint());
  } else if (!isMarked(point)) {
    if (cursor.x === null || !cursor.isVisible) placeCursor();
    cursor.isVisible = true;
    markAt(object, picture, cursor.x, cursor.y);
  }
}

export function stepKeypoint(by) {
  settleNudge();
  const all = state.project.keypoints.map((point) => point.id);
  if (!all.length) return;
  const at = all.indexOf(state.keypoint);
  chooseKeypoint(all[(at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by + all.length) % all.length]);
  const point = pointOf(shownObject(), state.keypoint);
  if (point && isShown(point)) reveal(point.x, point.y);
}

export function confirmAll() {
  const object = shownObject();
  if (!object) return;
  const threshold = state.project.settings.threshold;
  confirm(object, object.points.filter((point) => point.kind === "found" && point.presence >= threshold).map((point) => point.keypoint));
}

function letters(event, object) {
  const chosen = state.keypoint !== null && object ? pointOf(object, state.keypoint) : null;
  switch (event.key) {
    case "Enter": return enter();
    case "[": return stepKeypoint(-1);
    case "]": return stepKeypoint(1);
    case "a": {
      if (!shownPicture()) return undefined;
      if (cursor.x === null || !cursor.isVisible) placeCursor();
      return askName(cursor.x, cursor.y);
    }
    case "c": return object && state.keypoint !== null && confirm(object, [state.keypoint]);
    case "C": return confirmAll();
    case "x": return object && state.keypoint !== null && markAbsent(object, state.keypoint);
    case "Delete": case "Backspace": return isMarked(chosen) && unmark(object, state.keypoint);
    case "v": return setTool("mark");
    case "b": return setTool("box");
    case "h": return setTool("pan");
    case "l": return state.keypoint !== null ? linkStep(state.keypoint) : setTool("link");
    case "+": case "=": return zoomAt(1.25);
    case "-": case "_": return zoomAt(0.8);
    case "0": return fit();
    case "t": state.labels = !state.labels; return changed("stage", "tools");
    case "s": return chooseView(document.getElementById("view").value === "saliency" ? "none" : "saliency");
    case "Escape": state.linkFrom = null; cursor.isVisible = false; chooseKeypoint(null); return actions.escape?.();
    case "?": return actions.help?.();
    default: break;
  }
  if (/^[1-9]$/.test(event.key) && state.project.keypoints[Number(event.key) - 1]) {
    return chooseKeypoint(state.project.keypoints[Number(event.key) - 1].id);
  }
  const named = { d: "detect", ",": "previous", ".": "next", PageUp: "previous", PageDown: "next", w: "worth", e: "export" };
  return named[event.key] ? actions[named[event.key]]?.() : false;
}

window.addEventListener("keydown", (event) => {
  const target = event.target;
  if (isNaming() || document.querySelector("dialog[open]")) return;
  if (target.matches("input:not([type=checkbox]), select, textarea")) return;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") {
    event.preventDefault();
    settleNudge();
    (event.shiftKey ? redo : undo)();
    return;
  }
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "y") {
    event.preventDefault();
    redo();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isOnStage = target === canvas || target === document.body;
  const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  if (event.key in arrows) {
    if (!isOnStage) return;
    event.preventDefault();
    const size = event.shiftKey ? 10 : 1;
    arrow(arrows[event.key][0] * size, arrows[event.key][1] * size);
    return;
  }
  if (event.key === " ") {
    if (!isOnStage) return;
    event.preventDefault();
    held.space = true;
    return;
  }
  if (event.key === "Enter" && !isOnStage) return;
  if (letters(event, shownObject()) !== false) event.preventDefault();
});

window.addEventListener("keyup", (event) => {
  if (event.key === " ") held.space = false;
});
