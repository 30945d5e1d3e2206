// Starts the page: loads the project, listens, and ties buttons to actions.

import { call, download, listen, upload } from "./api.js";
import { canRedo, canUndo, redo, undo } from "./edits.js";
import { bind, confirmAll, KEYS, settleNudge, setTool } from "./keys.js";
import { toast } from "./messages.js";
import { askName } from "./namer.js";
import { revealRow } from "./panels.js";
import { canvas, cursor, fit, placeCursor, showImage, zoomAt } from "./stage.js";
import {
  changed, checked, chooseKeypoint, dropPicture, nextKeypoint, onChange, pictureOrder, shownPicture, state, takeJob,
  takePictures, takeProject, worth,
} from "./state.js";
import { forget } from "./views.js";

const by = (id) => document.getElementById(id);

// --- pictures -----------------------------------------------------------------------------------------------------------------

export function showPicture(number) {
  settleNudge();
  const picture = state.pictures.get(number);
  if (!picture) return;
  state.picture = number;
  state.object = picture.objects[0]?.id ?? null;
  state.hover = state.linkFrom = null;
  cursor.isVisible = false;
  const order = pictureOrder().map((one) => one.id);
  const at = order.indexOf(number);
  showImage(number, order.slice(at + 1, at + 3));
  chooseKeypoint(nextKeypoint());
  fit();
  revealRow(number);
  canvas.setAttribute("aria-label", `Picture ${picture.path}`);
  history.replaceState(null, "", `#${number}`);
  call("POST", "/api/look", { picture: number }).catch(() => {});
  changed("pictures", "keypoints", "stage", "hint");
}

function stepPicture(step) {
  const order = pictureOrder().map((one) => one.id);
  if (order.length) showPicture(order[Math.min(order.length - 1, Math.max(0, order.indexOf(state.picture) + step))]);
}

function showMostWorth() {
  const [best] = [...state.pictures.values()].filter((one) => one.id !== state.picture).sort((a, b) => worth(b) - worth(a));
  if (best && worth(best) > 0) showPicture(best.id);
  else toast("Nothing is left to check. Find the points in all pictures first, or you are done.");
}

document.addEventListener("show-picture", (event) => showPicture(event.detail));
document.addEventListener("step-picture", (event) => stepPicture(event.detail));

async function loadAll() {
  takeProject(await call("GET", "/api/project"));
  const pictures = [];
  for (let offset = 0; ; offset += 500) {
    const part = await call("GET", `/api/pictures?offset=${offset}&limit=500`);
    pictures.push(...part);
    if (part.length < 500) break;
  }
  state.pictures.clear();
  takePictures(pictures);
  changed("project");
  const wanted = Number(location.hash.slice(1));
  const number = state.pictures.has(state.picture) ? state.picture : state.pictures.has(wanted) ? wanted : pictureOrder()[0]?.id;
  if (number && number !== state.picture) showPicture(number);
}

// --- adding -------------------------------------------------------------------------------------------------------------------

async function addFiles(files) {
  const images = files.filter(({ file, name }) => file.type.startsWith("image/") || /\.(jpe?g|png|webp|tiff?|bmp|gif|heic|heif)$/i.test(name));
  if (!images.length) return toast("No picture among these files; expected JPEG, PNG, WebP, TIFF or BMP.", { bad: true });
  const { pictures, refused } = await upload(images, state.project.limits, (done, total) => {
    by("job").textContent = `Adding ${done} of ${total} pictures`;
  });
  changed("bar");
  takePictures(pictures);
  if (refused.length) toast(`${refused.length} not taken: ${refused[0]}`, { bad: true });
  if (state.picture === null && pictures.length) showPicture(pictures[0].id);
  return undefined;
}

const listed = (files) => [...files].map((file) => ({ file, name: file.webkitRelativePath || file.name }));
for (const id of ["files", "folder", "files-empty"]) {
  by(id).addEventListener("change", (event) => {
    addFiles(listed(event.target.files));
    event.target.value = "";
  });
}

async function unpack(entry, path, into) {
  if (entry.isFile) {
    into.push({ file: await new Promise((take, fail) => entry.file(take, fail)), name: path + entry.name });
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const part = await new Promise((take, fail) => reader.readEntries(take, fail));
    if (!part.length) return;
    for (const one of part) if (!one.name.startsWith(".")) await unpack(one, `${path}${entry.name}/`, into);
  }
}

window.addEventListener("dragover", (event) => {
  event.preventDefault();
  by("drop").hidden = false;
});
window.addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) by("drop").hidden = true;
});
window.addEventListener("drop", async (event) => {
  event.preventDefault();
  by("drop").hidden = true;
  const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const files = [];
  if (entries.length) for (const entry of entries) await unpack(entry, "", files);
  else files.push(...listed(event.dataTransfer.files));
  addFiles(files);
});

// --- finding, exporting, choosing ---------------------------------------------------------------------------------------------

const openJob = () => state.project.jobs.find((job) => job.state === "queued" || job.state === "running");

async function ask(method, path, body) {
  settleNudge();
  try {
    takeJob(await call(method, path, body));
  } catch (problem) {
    toast(problem.message, { bad: true });
  }
}

const detect = () => ask("POST", "/api/jobs", { kind: "detect" });
const transduce = () => ask("POST", "/api/jobs", { kind: "transductive" });
const stop = () => openJob() && ask("DELETE", `/api/jobs/${openJob().id}`);

const FORMATS = {
  coco: ["COCO keypoints", ".json"], csv: ["Table", ".csv"], deeplabcut: ["DeepLabCut", ".zip"], sleap: ["SLEAP", ".slp"],
  ultralytics: ["Ultralytics pose", ".zip"], "label-studio": ["Label Studio", ".json"],
};

function drawExport() {
  const menu = by("export-menu");
  const entry = (title, ending, path) => {
    const button = document.createElement("button");
    button.append(title, Object.assign(document.createElement("span"), { className: "small", textContent: ending }));
    button.addEventListener("click", async () => {
      toggleExport(false);
      try {
        await download(path(), `export${ending}`);
      } catch (problem) {
        toast(problem.message, { bad: true });
      }
    });
    return button;
  };
  const only = Object.assign(document.createElement("input"), { type: "checkbox", id: "only-marks" });
  const line = Object.assign(document.createElement("label"), { className: "line small" });
  line.append(only, "Only points that I placed or confirmed");
  menu.replaceChildren(
    ...state.choices.formats.map((name) => entry(...(FORMATS[name] ?? [name, ""]), () => `/api/export/${name}?only_marks=${only.checked}`)),
    entry("Pack: what was taught", ".safetensors", () => "/api/pack"), line);
}

function toggleExport(show = by("export-menu").hidden) {
  by("export-menu").hidden = !show;
  by("export").setAttribute("aria-expanded", String(show));
  if (show) by("export-menu").querySelector("button")?.focus();
}

async function setSettings(values) {
  try {
    takeProject(await call("PATCH", "/api/settings", values));
  } catch (problem) {
    toast(problem.message, { bad: true });
    changed("project");
  }
}

function drawSettings() {
  const { model, saliency, threshold } = state.project.settings;
  const models = state.choices.models.some((one) => one.name === model) ? state.choices.models : [...state.choices.models, { name: model, title: model }];
  by("model").replaceChildren(...models.map((one) => new Option(one.title, one.name)));
  by("model").value = model;
  by("saliency").replaceChildren(...state.choices.saliency.map((name) => new Option(name === "model" ? "the model's own" : name.replace("_", " "), name)));
  by("saliency").value = saliency;
  if (document.activeElement !== by("threshold")) by("threshold").value = threshold;
  by("threshold-text").value = Number(threshold).toFixed(2);
  by("project-name").textContent = state.project.name ?? "";
  document.title = `${state.project.name ?? ""} · salvit`;
}

// --- the bar, the status line -------------------------------------------------------------------------------------------------

function drawBar() {
  const sums = [...state.pictures.values()].map(checked);
  const done = sums.reduce((sum, one) => sum + one.done, 0);
  const total = sums.reduce((sum, one) => sum + one.total, 0);
  const share = total ? (100 * done) / total : 0;
  by("progress-fill").style.width = `${share}%`;
  by("progress").setAttribute("aria-valuenow", share.toFixed(0));
  by("progress-text").textContent = total ? `${done} of ${total} points checked` : "No points yet";
  by("undo").disabled = !canUndo();
  by("redo").disabled = !canRedo();
  const job = openJob();
  by("detect-text").textContent = job ? `Finding… ${job.total ? Math.round((100 * job.done) / job.total) : 0} %` : state.project.settings.live ? "Find again" : "Find in all pictures";
  const newest = state.project.jobs[0];
  by("job").textContent = job ? `Looking at picture ${Math.min(job.done + 1, job.total || 1)} of ${job.total || "…"}`
    : newest?.state === "failed" ? `Failed: ${newest.message}` : newest?.message || (newest?.state === "done" ? "All points are found" : "");
  by("stop").hidden = !job;
  document.body.dataset.job = job ? "running" : "idle";
}

function drawStatus() {
  const saved = by("saved");
  saved.dataset.state = !state.connected ? "offline" : state.unsaved ? "saving" : "saved";
  saved.textContent = { offline: "No connection to the server", saving: "Saving…", saved: "Saved" }[saved.dataset.state];
  if (Number(by("hint").dataset.until ?? 0) > Date.now()) return;
  by("hint").textContent = hint();
}

function hint() {
  if (!shownPicture()) return "Drop pictures or a folder to begin.";
  if (state.tool === "box") return "Drag a box around an animal.";
  if (state.tool === "link") return "Click two points to link them, or to unlink them.";
  if (!state.project.keypoints.length) return "Click a place in the picture and name it.";
  if (state.keypoint === null) return "Click to mark a new point, D finds all points in all pictures.";
  return "Drag a point to correct it, click it again or press Enter to confirm, X if it is not there.";
}

// --- tie ------------------------------------------------------------------------------------------------------------------------

for (const button of by("tools").querySelectorAll("button")) button.addEventListener("click", () => setTool(button.dataset.tool));
onChange(["tools"], () => {
  for (const button of by("tools").querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.dataset.tool === state.tool));
  by("labels").checked = state.labels;
});
onChange(["project"], drawSettings);
onChange(["bar", "project", "pictures"], drawBar);
onChange(["saved", "hint", "keypoints", "tools", "bar"], drawStatus);
setInterval(drawStatus, 3000);

const clicks = {
  undo, redo, detect, transduce, stop, "zoom-in": () => zoomAt(1.25), "zoom-out": () => zoomAt(0.8), "zoom-fit": fit, previous: () => stepPicture(-1),
  next: () => stepPicture(1), "next-worth": showMostWorth, export: () => toggleExport(), "confirm-all": confirmAll, help: () => by("keys").showModal(),
  "keys-close": () => by("keys").close(),
  "add-keypoint": () => {
    if (!shownPicture()) return;
    placeCursor();
    askName(cursor.x, cursor.y);
  },
  theme: () => {
    const isDark = getComputedStyle(document.documentElement).colorScheme === "dark";
    document.documentElement.dataset.theme = isDark ? "light" : "dark";
    localStorage.setItem("salvit-theme", isDark ? "light" : "dark");
    changed("stage");
  },
};
for (const [id, run] of Object.entries(clicks)) by(id).addEventListener("click", run);
by("order").addEventListener("change", (event) => {
  state.order = event.target.value;
  changed("pictures");
});
by("model").addEventListener("change", (event) => setSettings({ model: event.target.value }).then(forget));
by("saliency").addEventListener("change", (event) => setSettings({ saliency: event.target.value }).then(forget));
by("threshold").addEventListener("input", (event) => {
  state.project.settings.threshold = Number(event.target.value);
  by("threshold-text").value = Number(event.target.value).toFixed(2);
  changed("stage", "keypoints");
});
by("threshold").addEventListener("change", (event) => setSettings({ threshold: Number(event.target.value) }));
by("labels").addEventListener("change", (event) => {
  state.labels = event.target.checked;
  changed("stage");
});
document.addEventListener("pointerdown", (event) => {
  if (!event.target.closest(".menu-box")) toggleExport(false);
});
window.addEventListener("beforeunload", (event) => {
  settleNudge();
  if (state.unsaved) event.preventDefault();
});
for (const [name, run] of Object.entries({
  detect, previous: () => stepPicture(-1), next: () => stepPicture(1), worth: showMostWorth, export: () => toggleExport(),
  help: () => by("keys").showModal(), escape: () => toggleExport(false),
})) bind(name, run);
by("keys-list").replaceChildren(...KEYS.map(([keys, what]) => {
  const line = document.createElement("div");
  line.append(what, Object.assign(document.createElement("kbd"), { textContent: keys }));
  return line;
}));

let wasLost = false;
listen({
  pictures: (pictures) => {
    takePictures(pictures);
    forget();
    if (state.picture === null && pictureOrder().length) showPicture(pictureOrder()[0].id);
  },
  project: takeProject, job: takeJob, removed: ({ picture }) => {
    const wasShown = picture === state.picture;
    if (wasShown) stepPicture(1);
    dropPicture(picture);
    if (wasShown && !state.pictures.has(state.picture)) {
      state.picture = null;
      showPicture(pictureOrder()[0]?.id);
    }
  },
  reload: loadAll,
}, (isOpen) => {
  state.connected = isOpen;
  if (isOpen && wasLost) {
    for (const picture of state.pictures.values()) picture.read = 0; // another server counts anew
    state.project.revision = 0;
    loadAll().catch(() => {});
  }
  wasLost = !isOpen;
  changed("saved");
});
state.choices = await call("GET", "/api/choices");
drawExport();
await loadAll();
canvas.focus({ preventScroll: true });
document.body.dataset.ready = "yes";
