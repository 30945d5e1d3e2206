// Runs before the page is drawn, so that it never flashes in the wrong colours.
const kept = localStorage.getItem("salvit-theme");
if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
