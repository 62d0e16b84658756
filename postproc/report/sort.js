for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const keys = new Map();
      for (const row of table.tBodies[0].rows) {
        const text = row.cells[column].textContent.trim();
        keys.set(row, { text, number: parseFloat(text.replace("\u2212", "-")) });
      }
      const order = (a, b) => {
        const x = keys.get(a), y = keys.get(b);
        if (isNaN(x.number) !== isNaN(y.number)) return isNaN(x.number) - isNaN(y.number);
        return isNaN(x.number) ? x.text.localeCompare(y.text) : x.number - y.number;
      };
      const rows = [...keys.keys()].sort(order);
      table.tBodies[0].append(...(down ? rows.reverse() : rows));
    });
  });
}
