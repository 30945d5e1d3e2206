// Calls to the server. Everything that the page does goes through these; GET /docs lists them.

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export async function call(method, path, body) {
  const options = { method, headers: {} };
  if (body instanceof FormData) options.body = body;
  else if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["content-type"] = "application/json";
  }
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Refused(0, "The server does not answer. Is `salvit serve` still running?");
  }
  if (answer.status === 204) return null;
  const content = await answer.json().catch(() => ({ detail: answer.statusText }));
  if (!answer.ok) throw new Refused(answer.status, String(content.detail ?? answer.statusText));
  return content;
}

export async function download(path, name) {
  const answer = await fetch(path);
  if (!answer.ok) {
    const content = await answer.json().catch(() => ({ detail: answer.statusText }));
    throw new Refused(answer.status, String(content.detail));
  }
  const stated = /filename="([^"]+)"/.exec(answer.headers.get("content-disposition") ?? "");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await answer.blob());
  link.download = stated?.[1] ?? name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

// Send files in portions that keep under the server's limits; `tell(done, total)` after each.
export async function upload(files, limits, tell) {
  const refused = [];
  const pictures = [];
  let done = 0;
  for (const portion of portions(files, limits, refused)) {
    const form = new FormData();
    for (const { file, name } of portion) form.append("files", file, name);
    try {
      const answer = await call("POST", "/api/pictures", form);
      pictures.push(...answer.pictures);
      refused.push(...answer.refused);
    } catch (problem) {
      refused.push(problem.message);
    }
    done += portion.length;
    tell(done, files.length);
  }
  return { pictures, refused };
}

function* portions(files, limits, refused) {
  let portion = [];
  let bytes = 0;
  for (const one of files) {
    if (one.file.size > limits.file_bytes) {
      refused.push(`${one.name}: larger than the limit of ${Math.round(limits.file_bytes / 2 ** 20)} MB`);
      continue;
    }
    if (portion.length >= Math.min(20, limits.upload_files) || bytes + one.file.size > limits.upload_bytes * 0.9) {
      yield portion;
      portion = [];
      bytes = 0;
    }
    portion.push(one);
    bytes += one.file.size;
  }
  if (portion.length) yield portion;
}

export function listen(handlers, onState) {
  const source = new EventSource("/api/events");
  for (const [kind, handler] of Object.entries(handlers)) {
    source.addEventListener(kind, (event) => handler(JSON.parse(event.data)));
  }
  source.addEventListener("open", () => onState(true));
  source.addEventListener("error", () => onState(false));
  return source;
}
