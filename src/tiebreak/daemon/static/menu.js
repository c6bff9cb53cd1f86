// A menu is a `details` element, which works without scripts. With them Escape and a click elsewhere close it.

const openMenu = () => document.querySelector("details.menu[open]");

export function startMenu() {
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && openMenu();
    if (!menu) return;
    menu.open = false;
    if (menu.contains(document.activeElement)) menu.querySelector("summary").focus();
  });
  document.addEventListener("click", (event) => {
    const menu = openMenu();
    if (menu && !menu.contains(event.target)) menu.open = false;
  });
}
