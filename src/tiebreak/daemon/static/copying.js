// `<button data-copy="text">` copies a text, and says so.
export function startCopying() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
    } catch {
      // Neither https nor loopback, or the person forbids it: select the text, so that Ctrl-C copies it.
      getSelection().selectAllChildren(button.previousElementSibling ?? button.parentElement);
      return;
    }
    button.dataset.copied = "yes";
    button.setAttribute("aria-label", "Copied");
    setTimeout(() => {
      delete button.dataset.copied;
      button.setAttribute("aria-label", `Copy ${button.dataset.copy}`);
    }, 1500);
  });
}
