// Before the page is drawn: the colours that were chosen, or else those of the system.
"use strict";
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("holdfast.theme"); } catch { /* storage is forbidden */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
