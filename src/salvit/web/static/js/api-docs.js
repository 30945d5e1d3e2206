// Shows openapi.json as a page, without anything from elsewhere.

const description = await (await fetch("/api/openapi.json")).json();
const main = document.getElementById("paths");

const made = (tag, text, className) => Object.assign(document.createElement(tag), { textContent: text ?? "", className: className ?? "" });

// A schema in a few lines: names, types, what they mean.
function outline(schema, depth = 0) {
  if (!schema || depth > 5) return "…";
  if (schema.$ref) return outline(description.components.schemas[schema.$ref.split("/").at(-1)], depth);
  if (schema.anyOf) return schema.anyOf.map((one) => outline(one, depth)).join(" | ");
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.type === "array") return schema.prefixItems ? `[${schema.prefixItems.map((one) => outline(one, depth + 1)).join(", ")}]` : `[${outline(schema.items, depth + 1)}]`;
  if (schema.type !== "object" || !schema.properties) return schema.type ?? "any";
  const pad = "  ".repeat(depth + 1);
  const required = new Set(schema.required ?? []);
  const lines = Object.entries(schema.properties).map(([name, inner]) => {
    const note = inner.description ? `   # ${inner.description}` : "";
    return `${pad}${name}${required.has(name) ? "" : "?"}: ${outline(inner, depth + 1)}${note}`;
  });
  return `{\n${lines.join("\n")}\n${"  ".repeat(depth)}}`;
}

function block(title, text) {
  const box = document.createDocumentFragment();
  box.append(made("h3", title), made("pre", text));
  return box;
}

const byTag = new Map();
for (const [path, methods] of Object.entries(description.paths)) {
  for (const [method, operation] of Object.entries(methods)) {
    const tag = operation.tags?.[0] ?? "other";
    byTag.set(tag, [...(byTag.get(tag) ?? []), { path, method, operation }]);
  }
}
for (const [tag, entries] of byTag) {
  main.append(made("h2", tag));
  for (const { path, method, operation } of entries) {
    const box = document.createElement("details");
    const head = document.createElement("summary");
    head.append(made("span", method.toUpperCase(), "method"), made("code", path), made("span", operation.description?.split("\n")[0] ?? operation.summary, "small"));
    box.append(head, made("p", operation.description));
    if (operation.parameters?.length) {
      box.append(block("Parameters", operation.parameters.map((one) => `${one.name} (${one.in})${one.required ? "" : "?"}: ${outline(one.schema)}`).join("\n")));
    }
    for (const [kind, content] of Object.entries(operation.requestBody?.content ?? {})) box.append(block(`Takes ${kind}`, outline(content.schema)));
    for (const [status, answer] of Object.entries(operation.responses)) {
      const [content] = Object.values(answer.content ?? {});
      if (status < 300) box.append(block(`Gives ${status}`, content?.schema ? outline(content.schema) : "a file"));
    }
    main.append(box);
  }
}
document.body.dataset.ready = "yes";
