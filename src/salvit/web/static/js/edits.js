// Changes to the project, each saved at once, with undo and redo. Changes go out one after another; each names the
// revision that this page saw, so that the server refuses it where another window was faster.

import { call } from "./api.js";
import { say, toast } from "./messages.js";
import { changed, keypointOf, pointOf, putPoint, revisionOf, state, takePictures, takeProject } from "./state.js";

const past = [];
const future = [];
let last = Promise.resolve();

export const canUndo = () => past.length > 0;
export const canRedo = () => future.length > 0;

function inTurn(work) {
  state.unsaved += 1;
  changed("saved");
  const result = last.then(work);
  last = result.catch(() => {}).finally(() => {
    state.unsaved -= 1;
    changed("saved", "bar");
  });
  return result;
}

function remember(label, undo, redo) {
  past.push({ label, undo, redo, picture: state.picture, object: state.object });
  if (past.length > 500) past.shift();
  future.length = 0;
  changed("bar");
}

async function step(from, to, way) {
  const entry = from.pop();
  if (!entry) return;
  changed("bar");
  try {
    await entry[way]();
    to.push(entry);
    say(`${way === "undo" ? "Undone" : "Done again"}: ${entry.label}`);
    if (entry.picture !== state.picture && state.pictures.has(entry.picture)) {
      document.dispatchEvent(new CustomEvent("show-picture", { detail: entry.picture }));
    }
  } catch (problem) {
    toast(problem.message, { bad: true });
  }
  changed("bar");
}

export const undo = () => step(past, future, "undo");
export const redo = () => step(future, past, "redo");

async function refresh(numbers) {
  takePictures(await Promise.all([...new Set(numbers)].map((number) => call("GET", `/api/pictures/${number}`))));
}

function pictureOfObject(number) {
  for (const picture of state.pictures.values()) {
    const object = picture.objects.find((one) => one.id === number);
    if (object) return { picture, object };
  }
  return {};
}

// --- marks -------------------------------------------------------------------------------------------------------------

// wanted: [{object, keypoint, kind, x, y}]; kind null removes the mark.
function sendMarks(wanted) {
  for (const mark of wanted) {
    const { object } = pictureOfObject(mark.object);
    state.pending.set(`${mark.object}:${mark.keypoint}`, { kind: mark.kind, x: mark.x, y: mark.y });
    if (object) putPoint(object, mark.keypoint, { kind: mark.kind, x: mark.x, y: mark.y });
  }
  changed("stage", "keypoints", "pictures");
  const touched = wanted.map((mark) => pictureOfObject(mark.object).picture?.id).filter(Boolean);
  return inTurn(async () => {
    const changes = wanted.map((mark) => ({
      object: mark.object, keypoint: mark.keypoint, kind: mark.kind, x: mark.x ?? 0, y: mark.y ?? 0,
      revision: revisionOf(mark.object, mark.keypoint),
    }));
    const settle = () => wanted.forEach((mark) => state.pending.delete(`${mark.object}:${mark.keypoint}`));
    try {
      const pictures = await call("PUT", "/api/marks", { changes });
      settle();
      takePictures(pictures);
    } catch (problem) {
      settle();
      await refresh(touched).catch(() => {});
      throw problem;
    }
  });
}

const asMark = (object, keypoint) => {
  const point = pointOf(object, keypoint);
  const kept = point && ["placed", "confirmed", "absent"].includes(point.kind);
  return { object: object.id, keypoint, kind: kept ? point.kind : null, x: kept ? point.x : 0, y: kept ? point.y : 0 };
};

export function mark(label, wanted, beforeOfDrag) {
  const before = beforeOfDrag ?? wanted.map((one) => asMark(pictureOfObject(one.object).object, one.keypoint));
  remember(label, () => sendMarks(before), () => sendMarks(wanted));
  return sendMarks(wanted).catch((problem) => {
    past.pop();
    changed("bar");
    toast(problem.message, { bad: true });
  });
}

export { asMark };

export function place(object, keypoint, x, y, before) {
  const name = keypointOf(keypoint)?.name ?? "point";
  say(`${name} placed at ${Math.round(x)}, ${Math.round(y)}`);
  return mark(`place ${name}`, [{ object: object.id, keypoint, kind: "placed", x, y }], before && [before]);
}

export function confirm(object, keypoints) {
  const wanted = [];
  for (const keypoint of keypoints) {
    const point = pointOf(object, keypoint);
    if (point?.kind === "found") wanted.push({ object: object.id, keypoint, kind: "confirmed", x: point.x, y: point.y });
  }
  if (!wanted.length) return Promise.resolve();
  const what = wanted.length === 1 ? keypointOf(wanted[0].keypoint).name : `${wanted.length} points`;
  say(`${what} confirmed`);
  return mark(`confirm ${what}`, wanted);
}

export function markAbsent(object, keypoint) {
  say(`${keypointOf(keypoint).name} is not in this picture`);
  return mark(`${keypointOf(keypoint).name} absent`, [{ object: object.id, keypoint, kind: "absent", x: 0, y: 0 }]);
}

export function unmark(object, keypoint) {
  return mark(`remove ${keypointOf(keypoint).name}`, [{ object: object.id, keypoint, kind: null, x: 0, y: 0 }]);
}

// --- keypoints, links, objects -----------------------------------------------------------------------------------------

const deletedRevisions = new Map(); // of removed keypoints, so that they can come back
const setKeypoint = (number, name, deleted) => inTurn(async () => {
  const project = await call("GET", "/api/project");
  const revision = project.keypoints.find((point) => point.id === number)?.revision ?? deletedRevisions.get(number) ?? 0;
  const after = await call("PUT", `/api/keypoints/${number}`, { name, deleted, revision });
  if (deleted) deletedRevisions.set(number, after.revision);
  takeProject(after);
});

// A new keypoint and its first mark are one step: taking the keypoint back takes its mark along.
export async function nameAndPlace(object, name, x, y) {
  const point = await inTurn(() => call("POST", "/api/keypoints", { name }));
  if (!keypointOf(point.id)) state.project.keypoints.push(point);
  remember(`new point ${name}`, () => setKeypoint(point.id, name, true), () => setKeypoint(point.id, name, false));
  changed("project", "keypoints", "stage");
  say(`${name} placed at ${Math.round(x)}, ${Math.round(y)}`);
  await sendMarks([{ object: object.id, keypoint: point.id, kind: "placed", x, y }]);
}

export function renameKeypoint(number, name) {
  const before = keypointOf(number).name;
  return setKeypoint(number, name, false)
    .then(() => remember(`rename ${before}`, () => setKeypoint(number, before, false), () => setKeypoint(number, name, false)))
    .catch((problem) => toast(problem.message, { bad: true }));
}

export function removeKeypoint(number) {
  const { name } = keypointOf(number);
  return setKeypoint(number, name, true)
    .then(() => remember(`remove point ${name}`, () => setKeypoint(number, name, false), () => setKeypoint(number, name, true)))
    .then(() => toast(`Removed “${name}” with its marks.`, { action: "Undo", run: undo }))
    .catch((problem) => toast(problem.message, { bad: true }));
}

const sendLink = (kind, first, second, present) =>
  inTurn(async () => takeProject(await call("PUT", "/api/links", { kind, first, second, present })));

export function toggleLink(kind, first, second) {
  const list = kind === "pair" ? state.project.pairs : state.project.skeleton;
  const present = !list.some(([a, b]) => (a === first && b === second) || (a === second && b === first));
  const label = `${present ? "link" : "unlink"} ${keypointOf(first).name} and ${keypointOf(second).name}`;
  remember(label, () => sendLink(kind, first, second, !present), () => sendLink(kind, first, second, present));
  say(label);
  return sendLink(kind, first, second, present).catch((problem) => toast(problem.message, { bad: true }));
}

const objectRevisions = new Map(); // of removed objects
const setObject = (picture, number, box, deleted) => inTurn(async () => {
  const now = await call("GET", `/api/pictures/${picture}`);
  const revision = now.objects.find((one) => one.id === number)?.revision ?? objectRevisions.get(number) ?? 0;
  const after = await call("PUT", `/api/objects/${number}`, { box, deleted, revision });
  if (deleted) objectRevisions.set(number, (await call("GET", "/api/project")).revision);
  takePictures([after]);
});

// A box: the object that has none yet takes it, otherwise it is another animal.
export async function drawBox(picture, box) {
  const free = picture.objects.find((one) => one.box === null);
  try {
    if (free) {
      await setObject(picture.id, free.id, box, false);
      remember("box", () => setObject(picture.id, free.id, null, false), () => setObject(picture.id, free.id, box, false));
      state.object = free.id;
    } else {
      const known = new Set(picture.objects.map((one) => one.id));
      const after = await inTurn(() => call("POST", `/api/pictures/${picture.id}/objects`, { box }));
      takePictures([after]);
      const added = after.objects.find((one) => !known.has(one.id));
      remember("box", () => setObject(picture.id, added.id, box, true), () => setObject(picture.id, added.id, box, false));
      state.object = added.id;
    }
  } catch (problem) {
    toast(problem.message, { bad: true });
  }
  changed("stage", "keypoints");
}

export async function removeObject(picture, object) {
  const alone = picture.objects.length === 1;
  const box = object.box;
  try {
    await setObject(picture.id, object.id, alone ? null : box, !alone);
    remember("remove box", () => setObject(picture.id, object.id, box, false),
      () => setObject(picture.id, object.id, alone ? null : box, !alone));
  } catch (problem) {
    toast(problem.message, { bad: true });
  }
}

export async function removePicture(number) {
  const send = (deleted) => inTurn(() => call("PUT", `/api/pictures/${number}`, { deleted }).then(takeProject));
  await send(true).catch((problem) => toast(problem.message, { bad: true }));
  remember("remove picture", () => send(false), () => send(true));
  toast("Removed from the project; the file stays.", { action: "Undo", run: undo });
}
