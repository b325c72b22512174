// Moving in the page, and its state in its address: `#fusion&mapping=5&timed` opens that section with that mapping.

function hashState() {
  const parts = location.hash.slice(1).split("&").filter(Boolean);
  const number = Number((parts.find((part) => part.startsWith("mapping=")) || "").slice("mapping=".length));
  const section = parts.find((part) => !part.includes("=") && part !== "timed" && byId(part));
  return { section: section || "", mapping: Number.isInteger(number) && number > 0 ? number - 1 : null, timed: parts.includes("timed") };
}

/** What differs from how the page opens is in the address, so that a link leads to what one sees. */
function saveState(section = hashState().section) {
  const parts = [section, state.shown === DATA.best ? "" : `mapping=${state.shown + 1}`, state.timed ? "timed" : ""].filter(Boolean);
  const address = parts.length ? "#" + parts.join("&") : location.pathname + location.search;
  history.replaceState(null, "", address);
}

function goTo(section) {
  const target = byId(section);
  const folded = target.querySelector(":scope > details");
  if (folded) folded.open = true;
  target.scrollIntoView();
}

function drawNav() {
  const sections = [...document.querySelectorAll("main > section")].filter((section) => section.dataset.name);
  const links = new Map(sections.map((section) => [section, el("a", { href: "#" + section.id, onclick: (event) => {
    event.preventDefault();
    saveState(section.id);
    goTo(section.id);
  } }, section.dataset.name)]));
  byId("links").replaceChildren(...[...links.values()].map((link) => el("li", {}, link)));
  const seen = new Set();
  const watch = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) seen[isIntersecting ? "add" : "delete"](target);
    const current = sections.find((section) => seen.has(section));
    for (const [section, link] of links) link.setAttribute("aria-current", String(section === current));
  }, { rootMargin: "-80px 0px -40% 0px" });
  sections.forEach((section) => watch.observe(section));
}

/** Do what the address says: at first, and when it is changed by hand. */
async function applyState() {
  const { section, mapping, timed } = hashState();
  setTimed(timed);
  await choose(mapping === null ? DATA.best : mapping);
  if (section) goTo(section);
}
