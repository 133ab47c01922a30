// What makes the pages faster to use: they work without it. It swaps blocks that the
// server sends anew, counts times, copies, and takes keys. It renders nothing itself
// and keeps nothing.

const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

// --- times that count -------------------------------------------------------

let skew = 0; // of this clock against the server's, in ms

function span(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  const two = (n) => String(n).padStart(2, "0");
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m ${two(s % 60)} s`;
  if (s < 72 * 3600) return `${Math.floor(s / 3600)} h ${two(Math.floor((s % 3600) / 60))} m`;
  return `${Math.floor(s / 86400)} d ${two(Math.floor((s % 86400) / 3600))} h`;
}

function countAll() {
  const now = Date.now() + skew;
  for (const t of $$("time[data-count]")) {
    const off = (Date.parse(t.dateTime) - now) / 1000;
    let text;
    if (t.dataset.count === "in") text = off <= 0 ? "now" : `in ${span(Math.ceil(off))}`;
    else if (t.dataset.count === "ago") text = `${span(-off)} ago`;
    else text = span(-off);
    if (t.textContent !== text) t.textContent = text;
  }
}

// --- live -------------------------------------------------------------------

const live = $("#live");
let source = null;
let paused = false;
let fresh = Date.now(); // when the page was last known to be current
let lost = 0; // since when there is no connection

// clock is the server's time of day.
function clock() {
  return `${new Date(Date.now() + skew).toISOString().slice(11, 19)} UTC`;
}

function say(state, text) {
  if (!live) return;
  live.className = `live ${state}`;
  const label = $("[data-label]", live);
  if (label.textContent !== text) label.textContent = text;
}

function busy(block) {
  const selection = getSelection();
  return block.contains(document.activeElement) && document.activeElement !== document.body && document.activeElement.matches("input, select, textarea, summary, [data-menu]")
    || (!selection.isCollapsed && block.contains(selection.anchorNode))
    || $("details.menu[open]", block) !== null
    || block.matches(":active") // a click that has begun would be lost
    || ($("tbody", block) !== null && block.matches(":hover")); // rows stay under the pointer
}

// What came for a block that somebody uses just now waits here, the latest of it.
const waiting = new Map();

function flush() {
  for (const [name, html] of [...waiting]) swap(name, html);
}

function swap(name, html) {
  const block = $(`[data-live="${CSS.escape(name)}"]`);
  if (!block) return;
  if (busy(block)) {
    waiting.set(name, html);
    return;
  }
  waiting.delete(name);
  const next = document.createElement("template");
  next.innerHTML = html;
  const before = new Set($$("[data-row]", block).map((row) => row.dataset.row));
  if (before.size > 0) {
    for (const row of $$("[data-row]", next.content)) if (!before.has(row.dataset.row)) row.classList.add("fresh");
  }
  const open = $$("details[open] > summary", block).map((s) => s.textContent);
  const focus = block.contains(document.activeElement) ? document.activeElement.id || document.activeElement.getAttribute("href") : null;
  block.replaceChildren(next.content);
  for (const s of $$("details > summary", block)) if (open.includes(s.textContent)) s.parentElement.open = true;
  if (focus) {
    const again = document.getElementById(focus) || $(`a[href="${CSS.escape(focus)}"]`, block);
    if (again) again.focus({ preventScroll: true });
  }
}

let announced = 0;
function announce(text) {
  const region = $("#announce");
  if (!region || Date.now() - announced < 5000) return;
  announced = Date.now();
  region.textContent = text;
}

function connect() {
  if (source || paused || document.hidden || !live) return;
  source = new EventSource(location.href);
  const heard = () => {
    fresh = Date.now();
    lost = 0;
  };
  source.addEventListener("swap", (e) => {
    heard();
    const { live: name, html } = JSON.parse(e.data);
    swap(name, html);
    countAll();
  });
  source.addEventListener("now", (e) => {
    heard();
    skew = Date.parse(JSON.parse(e.data).at) - Date.now();
    if (Math.abs(skew) < 2000) skew = 0;
    say("on", clock());
  });
  source.addEventListener("lagged", (e) => announce(JSON.parse(e.data).why));
  source.addEventListener("trouble", (e) => say("lost", JSON.parse(e.data).why));
  source.addEventListener("ended", () => {
    disconnect();
    location.reload();
  });
  source.onerror = () => {
    if (!lost) {
      lost = Date.now();
      announce("The connection is lost.");
    }
    if (source && source.readyState === EventSource.CLOSED) {
      disconnect();
      setTimeout(connect, 1000 + Math.random() * 9000);
    }
  };
}

function disconnect() {
  if (source) source.close();
  source = null;
}

function pause() {
  paused = !paused;
  if (paused) {
    disconnect();
    say("paused", `Paused since ${clock()}`);
    announce("Live updates are paused.");
  } else {
    say("on", clock());
    announce("Live updates go on.");
    connect();
  }
  for (const b of $$("[data-pause]")) b.setAttribute("aria-pressed", String(paused));
}

function tick() {
  flush();
  if (!lost) countAll();
  else say("lost", `Connection lost, data is ${span((Date.now() - fresh) / 1000)} old`);
}

// --- clicks -----------------------------------------------------------------

async function copy(button) {
  const from = button.dataset.copy;
  const text = from.startsWith("#") ? $(from).textContent : from;
  try {
    await navigator.clipboard.writeText(text);
    announce("Copied.");
    const before = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = before), 1500);
  } catch {
    announce("The browser does not allow copying.");
  }
}

document.addEventListener("click", (e) => {
  const button = e.target.closest("[data-copy]");
  if (button) copy(button);
  if (e.target.closest("[data-pause]")) pause();
  if (e.target.closest("[data-help]")) help();
  if (e.target.closest("[data-close]")) e.target.closest(".toast").remove();
  const all = e.target.closest("[data-all]");
  if (all) for (const box of $$(`input[type=checkbox][name="${CSS.escape(all.dataset.all)}"]`)) box.checked = all.checked;
});

document.addEventListener("change", (e) => {
  if (e.target.matches("[data-submit]")) e.target.form.requestSubmit();
  if (e.target.matches("[data-keys]")) localStorage.setItem("keys", e.target.checked ? "on" : "off");
});

// --- keys -------------------------------------------------------------------

let typed = "";
let row = -1;

function move(by) {
  const rows = $$("main tbody tr").filter((r) => $("a[href]", r));
  if (rows.length === 0) return;
  row = Math.min(Math.max(row + by, 0), rows.length - 1);
  $("a[href]", rows[row]).focus();
}

// Whoever dictates or types by accident can switch the keys off, but not that for help.
function keysOn() {
  return localStorage.getItem("keys") !== "off";
}

function help() {
  const sheet = $("#keys");
  if (!sheet || sheet.open) return;
  $("[data-keys]", sheet).checked = keysOn();
  sheet.showModal();
}

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, select, textarea, dialog[open]")) return;
  if (!keysOn() && e.key !== "?") return;
  const keys = typed === "g" ? `g ${e.key}` : e.key;
  typed = e.key === "g" && typed !== "g" ? "g" : "";
  if (typed) {
    setTimeout(() => (typed = ""), 1500);
    return;
  }
  const at = document.activeElement && document.activeElement.closest("tr"); // the row that j and k lead to
  const target = (at && $(`[data-row-key="${CSS.escape(keys)}"]`, at)) || $(`[data-key="${CSS.escape(keys)}"]`);
  if (target) {
    e.preventDefault();
    target.matches("input, select, textarea") ? target.focus() : target.click();
    return;
  }
  const act = { j: () => move(1), k: () => move(-1), "?": help, p: () => live && pause() }[keys];
  if (act) {
    e.preventDefault();
    act();
  }
  if (keys === "x" && document.activeElement) {
    const box = $("input[type=checkbox]", document.activeElement.closest("tr") || document.createElement("tr"));
    if (box) box.click();
  }
});

// --- begin ------------------------------------------------------------------

document.documentElement.classList.add("js");
document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
addEventListener("pagehide", disconnect);
addEventListener("pageshow", connect);
for (const t of $$(".toast")) {
  let left = 6;
  const timer = setInterval(() => {
    if (t.matches(":hover, :focus-within")) return;
    if (--left <= 0) {
      t.remove();
      clearInterval(timer);
    }
  }, 1000);
}
const current = $("nav [aria-current=page]");
if (current) current.scrollIntoView({ block: "nearest", inline: "center" });
setInterval(tick, 1000);
connect();
