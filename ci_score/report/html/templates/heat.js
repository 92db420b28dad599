// A click on a layer in its map draws the icicle of that layer; by keyboard, its list chooses one.
document.addEventListener("click", event => {
  const cell = event.target.closest(".map [data-layer]");
  if (!cell) return;
  const layer = cell.dataset.layer === "" ? null : Number(cell.dataset.layer);
  const of = cell.closest(".map").dataset.case;
  document.dispatchEvent(new CustomEvent("ci-score:layer", { detail: { case: of, layer } }));
  document.querySelector(`.icicle[data-case="${CSS.escape(of)}"]`)?.scrollIntoView();
});
