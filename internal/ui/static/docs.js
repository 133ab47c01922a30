// The filter of /docs. The page works without it.

document.documentElement.classList.add("js");

const box = document.getElementById("filter");
const found = document.getElementById("found");

function filter() {
  const wanted = box.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const group of document.querySelectorAll("[data-group]")) {
    let any = false;
    for (const op of group.querySelectorAll("[data-op]")) {
      const text = op.dataset.op.toLowerCase();
      op.hidden = !wanted.every((word) => text.includes(word));
      if (!op.hidden) {
        any = true;
        shown += 1;
      }
    }
    group.hidden = !any;
  }
  found.textContent = wanted.length === 0 ? "" : `${shown} found`;
}

box.addEventListener("input", filter);
box.form.addEventListener("submit", (e) => e.preventDefault());
document.addEventListener("keydown", (e) => {
  if (e.key === "/" && !e.ctrlKey && !e.metaKey && !e.altKey && !e.target.matches("input, textarea, select")) {
    e.preventDefault();
    box.focus();
  }
  if (e.key === "Escape" && e.target === box) {
    box.value = "";
    filter();
  }
});

// Links lead to what a filter may hide, and to what is folded.
function open() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  box.value = "";
  filter();
  const details = target.closest("details");
  if (details) {
    details.open = true;
    details.scrollIntoView();
  }
}
addEventListener("hashchange", open);
if (location.hash) open();
filter();
