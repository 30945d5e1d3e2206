// What the page knows: the project, its pictures, and what is chosen. Parts draw themselves when told what changed.

export const state = {
  project: { keypoints: [], skeleton: [], pairs: [], settings: { threshold: 0.5 }, jobs: [], limits: {} },
  choices: { models: [], saliency: [], formats: [] },
  pictures: new Map(),
  picture: null, // number of the picture on the stage
  object: null, // number of the object whose points are edited
  keypoint: null, // chosen keypoint; null: the next click names a new one
  tool: "mark",
  order: "added",
  labels: true,
  hover: null,
  linkFrom: null,
  connected: true,
  unsaved: 0,
  pending: new Map(), // "object:keypoint" → point that is on its way to the server
};

const drawers = [];
let dirty = null;

export function onChange(parts, draw) {
  drawers.push({ parts: new Set(parts), draw });
}

export function changed(...parts) {
  if (dirty === null) {
    dirty = new Set();
    requestAnimationFrame(() => {
      const now = dirty;
      dirty = null;
      for (const drawer of drawers) if ([...now].some((part) => drawer.parts.has(part))) drawer.draw(now);
    });
  }
  for (const part of parts) dirty.add(part);
}

// --- taking in what the server says ----------------------------------------------------------------------------------

export function takeProject(project) {
  if (project.revision < (state.project.revision ?? 0)) return;
  state.project = project;
  if (!project.keypoints.some((point) => point.id === state.keypoint)) state.keypoint = null;
  changed("project", "stage", "pictures", "keypoints", "bar");
}

export function takeJob(job) {
  const others = state.project.jobs.filter((one) => one.id !== job.id);
  state.project.jobs = [job, ...others].sort((a, b) => b.id - a.id).slice(0, 5);
  changed("bar");
}

export function takePictures(pictures) {
  for (const picture of pictures) {
    const known = state.pictures.get(picture.id);
    if (known && known.read > picture.read) continue;
    state.pictures.set(picture.id, picture);
    for (const object of picture.objects) applyPending(object);
    changed(`picture-${picture.id}`);
  }
  const shown = state.pictures.get(state.picture);
  if (shown && !shown.objects.some((one) => one.id === state.object)) state.object = shown.objects[0]?.id ?? null;
  changed("pictures", "stage", "keypoints", "bar");
}

export function dropPicture(number) {
  state.pictures.delete(number);
  changed("pictures", "stage", "keypoints", "bar");
}

function applyPending(object) {
  for (const [key, wanted] of state.pending) {
    const [number, keypoint] = key.split(":").map(Number);
    if (number === object.id) putPoint(object, keypoint, wanted);
  }
}

// Show a point as the person wants it, before the server has it; its revision stays the server's.
export function putPoint(object, keypoint, wanted) {
  const at = object.points.findIndex((point) => point.keypoint === keypoint);
  const revision = at < 0 ? 0 : object.points[at].revision;
  if (wanted.kind === null) {
    if (at >= 0) object.points.splice(at, 1, { ...object.points[at], kind: "gone", revision });
    return;
  }
  const point = { keypoint, score: 1, presence: wanted.kind === "absent" ? 0 : 1, ...wanted, revision };
  if (at < 0) object.points.push(point);
  else object.points[at] = point;
}

// --- questions ---------------------------------------------------------------------------------------------------------

export const shownPicture = () => state.pictures.get(state.picture) ?? null;
export const shownObject = () => shownPicture()?.objects.find((one) => one.id === state.object) ?? null;
export const keypointOf = (number) => state.project.keypoints.find((point) => point.id === number) ?? null;
export const isMarked = (point) => Boolean(point) && ["placed", "confirmed", "absent"].includes(point.kind);
export const isShown = (point) => point.kind !== "absent" && point.kind !== "gone" && keypointOf(point.keypoint) !== null;
export const isUnsure = (point) => point.kind === "found" && point.presence < state.project.settings.threshold;

export function pointOf(object, keypoint) {
  return object?.points.find((point) => point.keypoint === keypoint && point.kind !== "gone") ?? null;
}

export function revisionOf(objectNumber, keypoint) {
  for (const picture of state.pictures.values()) {
    const object = picture.objects.find((one) => one.id === objectNumber);
    if (object) return object.points.find((point) => point.keypoint === keypoint)?.revision ?? 0;
  }
  return 0;
}

export function colourOf(keypoint, alpha = 1) {
  const place = state.project.keypoints.findIndex((point) => point.id === keypoint);
  const hue = (place * 137.508 + 205) % 360;
  return `hsl(${hue.toFixed(0)} 85% 58% / ${alpha})`;
}

// How much a picture is worth a look: its found points, the less they fit and the wider they spread, the more.
export function worth(picture) {
  const diagonal = Math.hypot(picture.width, picture.height);
  let sum = 0;
  let count = 0;
  for (const object of picture.objects) {
    for (const point of object.points) {
      if (point.kind !== "found" || !keypointOf(point.keypoint)) continue;
      const [xx, , yy] = point.covariance ?? [0, 0, 0];
      sum += 1 - point.score + Math.sqrt((xx + yy) / 2) / diagonal;
      count += 1;
    }
  }
  return count ? sum / count : 0;
}

export function checked(picture) {
  const total = picture.objects.length * state.project.keypoints.length;
  const known = new Set(state.project.keypoints.map((point) => point.id));
  const done = picture.objects.reduce(
    (sum, object) => sum + object.points.filter((point) => known.has(point.keypoint) && isMarked(point)).length, 0);
  return { done, total };
}

export function pictureOrder() {
  const all = [...state.pictures.values()].sort((a, b) => a.id - b.id);
  if (state.order === "worth") all.sort((a, b) => worth(b) - worth(a) || a.id - b.id);
  return all;
}

// --- choosing ----------------------------------------------------------------------------------------------------------

export function chooseKeypoint(number) {
  state.keypoint = number;
  changed("stage", "keypoints", "hint");
}

// The point to look at next: the least sure one that nobody checked, or one that has no place yet.
export function nextKeypoint() {
  const object = shownObject();
  const open = state.project.keypoints.filter((point) => !isMarked(pointOf(object, point.id)));
  if (!open.length) return null;
  const score = (point) => pointOf(object, point.id)?.score ?? -1;
  const found = open.filter((point) => score(point) >= 0).sort((a, b) => score(a) - score(b));
  return (found[0] ?? open[0]).id;
}
