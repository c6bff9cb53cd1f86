// `<button data-copy="text">` copies a text, and says so.
export function startCopying() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(button.dataset.copy);
    button.dataset.copied = "yes";
    button.setAttribute("aria-label", "Copied");
    setTimeout(() => {
      delete button.dataset.copied;
      button.setAttribute("aria-label", `Copy ${button.dataset.copy}`);
    }, 1500);
  });
}
