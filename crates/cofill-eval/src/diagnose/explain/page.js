"use strict";
(() => {
  // A cell under the pointer or with the focus is marked in every step, and says what it is. All texts are in the page already.
  const tip = document.getElementById("tip");
  let marked = [];
  const show = (cell) => {
    for (const old of marked) old.classList.remove("at");
    marked = cell ? [...document.querySelectorAll(`[data-p="${cell.dataset.p}"]`)] : [];
    for (const each of marked) each.classList.add("at");
    tip.hidden = !cell;
    tip.textContent = cell ? cell.getAttribute("aria-label") : "";
  };
  const of = (event) => (event.target.closest ? event.target.closest(".c") : null);
  document.addEventListener("pointerover", (event) => {
    if (of(event)) show(of(event));
    else if (!document.activeElement || !document.activeElement.matches(".c")) show(null);
  });
  document.addEventListener("focusin", (event) => show(of(event)));
  document.addEventListener("focusout", () => show(null));
  const go = (cell) => {
    if (!cell) return;
    // One tab stop for each canvas: where one was last.
    for (const each of cell.closest(".canvas").querySelectorAll('[tabindex="0"]')) each.tabIndex = -1;
    cell.tabIndex = 0;
    cell.focus();
  };
  document.addEventListener("keydown", (event) => {
    const here = of(event);
    if (event.key === "Escape") show(null);
    if (!here || event.ctrlKey || event.altKey || event.metaKey) return;
    const canvas = here.closest(".canvas");
    const cells = [...canvas.querySelectorAll(".c")];
    const canvases = [...document.querySelectorAll(".canvas")];
    const same = (other) => other && other.querySelector(`[data-p="${here.dataset.p}"]`);
    const to = {
      ArrowLeft: () => cells[cells.indexOf(here) - 1],
      ArrowRight: () => cells[cells.indexOf(here) + 1],
      ArrowUp: () => same(canvases[canvases.indexOf(canvas) - 1]),
      ArrowDown: () => same(canvases[canvases.indexOf(canvas) + 1]),
      Home: () => cells[0],
      End: () => cells[cells.length - 1],
    }[event.key];
    if (!to) return;
    event.preventDefault();
    go(to());
  });
})();
