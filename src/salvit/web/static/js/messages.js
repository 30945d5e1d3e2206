// What the page tells: to the eye in small boxes, to screen readers in a live region.

export function say(text) {
  document.getElementById("said").textContent = text;
  const hint = document.getElementById("hint");
  hint.textContent = text;
  hint.dataset.until = String(Date.now() + 2500);
}

export function toast(text, { bad = false, action = null, run = null, seconds = bad ? 9 : 5 } = {}) {
  const box = document.createElement("div");
  box.className = bad ? "toast bad" : "toast";
  box.setAttribute("role", bad ? "alert" : "status");
  const words = document.createElement("span");
  words.textContent = text;
  box.append(words);
  if (action) {
    const button = document.createElement("button");
    button.textContent = action;
    button.addEventListener("click", () => {
      box.remove();
      run();
    });
    box.append(button);
  }
  document.getElementById("toasts").append(box);
  while (document.getElementById("toasts").children.length > 4) document.getElementById("toasts").firstChild.remove();
  setTimeout(() => box.remove(), seconds * 1000);
}
