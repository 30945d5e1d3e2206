// Asks for the name of a new point, beside the place that was clicked. Names are remembered; the other side of a
// left/right pair is proposed.

import { mark, nameAndPlace } from "./edits.js";
import { canvas, clampToPicture, cursor, toScreen } from "./stage.js";
import { changed, chooseKeypoint, isMarked, pointOf, shownObject, shownPicture, state } from "./state.js";

const COMMON = ["nose", "left eye", "right eye", "left ear", "right ear", "throat", "tail base", "tail tip", "left paw", "right paw"];
const form = document.getElementById("namer");
const input = document.getElementById("name");
const error = document.getElementById("name-error");
let where = null;

export const isNaming = () => !form.hidden;
const used = () => new Set(state.project.keypoints.map((point) => point.name));
const remembered = () => JSON.parse(localStorage.getItem("salvit-names") ?? "[]");

export function mirrorName(name) {
  const swaps = { left: "right", right: "left", Left: "Right", Right: "Left", l: "r", r: "l", L: "R", R: "L" };
  const parts = name.split(/([ _-])/);
  const at = parts.findIndex((part) => part in swaps);
  if (at < 0) return null;
  return parts.map((part, index) => (index === at ? swaps[part] : part)).join("");
}

function proposals() {
  const taken = used();
  const mirrored = state.project.keypoints.map((point) => mirrorName(point.name)).filter(Boolean).reverse();
  return [...new Set([...mirrored, ...remembered(), ...COMMON])].filter((name) => !taken.has(name));
}

export function askName(x, y) {
  const picture = shownPicture();
  if (!picture) return;
  where = clampToPicture(picture, x, y);
  const [sx, sy] = toScreen(...where);
  form.style.left = `${Math.max(8, Math.min(sx + 16, canvas.clientWidth - 304))}px`;
  form.style.top = `${Math.max(8, Math.min(sy + 12, canvas.clientHeight - 170))}px`;
  const names = proposals();
  const last = state.project.keypoints.at(-1)?.name;
  const other = last ? mirrorName(last) : null;
  input.value = other && !used().has(other) ? other : "";
  document.getElementById("names").replaceChildren(...names.slice(0, 30).map((name) => new Option(name)));
  document.getElementById("name-chips").replaceChildren(...names.slice(0, 5).map((name) => {
    const chip = document.createElement("button");
    chip.type = "button";
    chip.textContent = name;
    chip.addEventListener("click", () => {
      input.value = name;
      form.requestSubmit();
    });
    return chip;
  }));
  error.textContent = "";
  form.hidden = false;
  [cursor.x, cursor.y, cursor.isVisible] = [...where, true];
  input.focus();
  input.select();
  changed("stage");
}

export function closeNamer() {
  form.hidden = true;
  canvas.focus();
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const name = input.value.trim().replace(/\s+/g, " ");
  const object = shownObject();
  if (!name) {
    error.textContent = "A point needs a name.";
    return;
  }
  const known = state.project.keypoints.find((point) => point.name === name);
  if (known && isMarked(pointOf(object, known.id))) {
    error.textContent = `“${name}” is marked here already; drag it, or choose another name.`;
    return;
  }
  localStorage.setItem("salvit-names", JSON.stringify([name, ...remembered().filter((one) => one !== name)].slice(0, 40)));
  try {
    if (known) mark(`place ${name}`, [{ object: object.id, keypoint: known.id, kind: "placed", x: where[0], y: where[1] }]);
    else await nameAndPlace(object, name, ...where);
    closeNamer();
    chooseKeypoint(null);
  } catch (problem) {
    error.textContent = problem.message;
  }
});

form.addEventListener("keydown", (event) => {
  if (event.key === "Escape") closeNamer();
  event.stopPropagation();
});

