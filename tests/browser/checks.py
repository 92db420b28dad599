"""What must hold for any page: legible, accessible, no wider than the screen."""

from __future__ import annotations

from typing import Any

from tests.browser.chromium import lab

# Of every text that is shown: its colour against what lies behind its middle, as WCAG counts.
# Shapes of a drawing have no background, so what is painted there is asked for its fill.
CONTRASTS = """
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = colour => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3]));
  const luminance = ([r, g, b]) => {
    const part = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = (element, x, y) => {
    const stack = document.elementsFromPoint(x, y);
    const from = stack.indexOf(element);
    const layers = [];
    for (const below of from < 0 ? stack : stack.slice(from)) {
      const style = getComputedStyle(below);
      const isShape = below instanceof SVGGeometryElement;
      if (below === element && element instanceof SVGElement) continue;
      const colour = rgba(isShape ? style.fill === "none" ? "transparent" : style.fill
                                  : style.backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    const root = rgba(getComputedStyle(document.body).backgroundColor);
    return layers.reduceRight((base, layer) => over(layer, base), root[3] ? root : [255, 255, 255]);
  };
  const isSeen = (element, x, y) => {
    if (!(element instanceof SVGElement)) return true;
    const isPainted = one => one instanceof SVGGeometryElement
      && rgba(getComputedStyle(one).fill)[3] === 1;
    const stack = document.elementsFromPoint(x, y);
    return stack.find(one => one === element || isPainted(one)) === element;
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || element.closest("script, style, title")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const place = range.getClientRects()[0];
    if (!place || !place.width || !element.checkVisibility({ visibilityProperty: true })) continue;
    element.scrollIntoView({ block: "center", inline: "center" });
    const box = range.getClientRects()[0];
    const y = box.top + box.height / 2;
    // Of a drawing's text that is cut off, or covered where there is no room, what is seen counts.
    const x = [box.left + box.width / 2, box.left + 3].find(x => isSeen(element, x, y));
    if (x === undefined || x < 0 || y < 0 || x >= innerWidth || y >= innerHeight) continue;
    const style = getComputedStyle(element);
    const back = behind(element, x, y);
    const text = over(rgba(element instanceof SVGElement ? style.fill : style.color), back);
    const [high, low] = [luminance(text), luminance(back)].sort((a, b) => b - a);
    found.push([node.data.trim().slice(0, 60), (high + 0.05) / (low + 0.05)]);
  }
  return found;
}
"""

OPEN_ALL = "() => document.querySelectorAll('details').forEach(fold => { fold.open = true; })"


def open_all(page: Any) -> None:
    """Unfolds everything: what is folded is a part of the page, too."""
    page.evaluate(OPEN_ALL)


def contrasts(page: Any) -> list[tuple[str, float]]:
    """Texts and their contrasts, the worst first."""
    rows = [(str(text), float(ratio)) for text, ratio in page.evaluate(CONTRASTS)]
    return sorted(rows, key=lambda row: row[1])


def axe_findings(page: Any) -> list[str]:
    """What axe-core finds, of whatever impact, with the elements."""
    page.evaluate(lab("axe-core", "axe.min.js"))
    result = page.evaluate("async () => await axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{rule['id']} ({rule['impact']}): {node['html'][:200]}"
        for rule in result["violations"]
        for node in rule["nodes"][:3]
    ]


def overflow(page: Any) -> int:
    """By how many pixels the page is wider than the screen."""
    wide: int = page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
    return wide


def overflowing(page: Any) -> list[str]:
    """Tables and drawings that stick out of the screen without a box that scrolls them."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("table, svg, pre, figure, p")].filter(element => {
          if (!element.checkVisibility() || element.parentElement.closest("svg")) return false;
          for (let box = element; box; box = box.parentElement) {
            const style = getComputedStyle(box);
            const right = box.getBoundingClientRect().right;
            if (style.overflowX !== "visible" && right <= innerWidth + 1) return false;
          }
          return element.getBoundingClientRect().right > innerWidth + 1;
        }).map(element => element.outerHTML.slice(0, 120))"""
    )
    return found
