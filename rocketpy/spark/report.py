"""Reports as one HTML file: a heading, charts as plain SVG, tables. No script, no network, nothing to install."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WIDTH, HEIGHT, MARGIN = 760, 260, 48
COLOURS = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f")
ROWS_MAX = 500
BARS_MAX = 24
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1f2937; background: #fff }
table { border-collapse: collapse; margin: 1rem 0; font-size: 14px } th, td { border-bottom: 1px solid #d1d5db; padding: .25rem .75rem }
th { text-align: left } td.number { text-align: right; font-variant-numeric: tabular-nums } svg text { font-size: 11px; fill: #4b5563 }
p.note { color: #4b5563 }
"""


@dataclass
class Report:
    """A report of parts, in the order in which they are added."""

    title: str
    parts: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        self.parts.append(f'<p class="note">{html.escape(text)}</p>')

    def table(self, heading: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
        body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows[:ROWS_MAX])
        more = f"<p class='note'>{len(rows) - ROWS_MAX} more rows are left out.</p>" if len(rows) > ROWS_MAX else ""
        self.parts.append(f"<h2>{html.escape(heading)}</h2><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}")

    def lines(self, heading: str, series: Mapping[str, Sequence[tuple[float, float]]], unit: str = "") -> None:
        """Adds a chart with one line per name over a common axis."""
        points = [point for line in series.values() for point in line]
        if not points:
            return
        x_min, x_max = min(x for x, _ in points), max(x for x, _ in points)
        y_max = max(y for _, y in points) or 1

        def place(x: float, y: float) -> str:
            right = MARGIN + (WIDTH - 2 * MARGIN) * ((x - x_min) / (x_max - x_min) if x_max > x_min else 0.5)
            return f"{right:.1f},{HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * y / y_max:.1f}"

        marks = []
        for number, (name, line) in enumerate(series.items()):
            colour = COLOURS[number % len(COLOURS)]
            path = " ".join(place(x, y) for x, y in sorted(line))
            marks.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
            marks += [f'<circle cx="{(at := place(x, y).split(","))[0]}" cy="{at[1]}" r="2.5" fill="{colour}"/>' for x, y in line]
            legend_x = MARGIN + number % 4 * 170
            marks.append(f'<text x="{legend_x}" y="{14 + number // 4 * 13}" style="fill:{colour}">{html.escape(name[:24])}</text>')
        self._chart(heading, "".join(marks), y_max, unit)

    def bars(self, heading: str, values: Sequence[tuple[str, float]], unit: str = "") -> None:
        """Adds a chart with one bar per name, in the given order: only the first BARS_MAX are shown."""
        shown = values[:BARS_MAX]
        if not shown:
            return
        y_max = max(value for _, value in shown) or 1
        step = (WIDTH - 2 * MARGIN) / len(shown)
        marks = []
        for number, (name, value) in enumerate(shown):
            height = (HEIGHT - 2 * MARGIN) * value / y_max
            left = MARGIN + number * step
            marks.append(
                f'<rect x="{left + step * 0.1:.1f}" y="{HEIGHT - MARGIN - height:.1f}" width="{step * 0.8:.1f}" height="{height:.1f}" '
                f'fill="{COLOURS[0]}"><title>{html.escape(name)}: {_number(value)}</title></rect>'
                f'<text x="{left + step / 2:.1f}" y="{HEIGHT - MARGIN + 14}" text-anchor="middle">'
                f"{html.escape(name[: max(3, int(step / 6))])}</text>"
            )
        self._chart(heading, "".join(marks), y_max, unit)
        if len(values) > BARS_MAX:
            self.note(f"{len(values) - BARS_MAX} more bars are left out.")

    def write(self, path: str | Path) -> Path:
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        title = html.escape(self.title)
        text = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style></head>'
        target.write_text(f"{text}<body><h1>{title}</h1>{''.join(self.parts)}</body></html>\n", encoding="utf-8")
        return target

    def _chart(self, heading: str, marks: str, y_max: float, unit: str) -> None:
        axis = f'<path d="M{MARGIN} {MARGIN} V{HEIGHT - MARGIN} H{WIDTH - MARGIN}" stroke="#9ca3af" fill="none"/>'
        scale = (
            f'<text x="{MARGIN - 4}" y="{MARGIN}" text-anchor="end">{_number(y_max)}</text>'
            f'<text x="4" y="{HEIGHT - 6}">{html.escape(unit)}</text>'
        )
        self.parts.append(
            f'<h2>{html.escape(heading)}</h2><svg viewBox="0 0 {WIDTH} {HEIGHT}" width="100%" role="img" '
            f'aria-label="{html.escape(heading)}">{axis}{scale}{marks}</svg>'
        )


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 100 else f"{value:,.2f}"


def _cell(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f'<td class="number">{_number(value)}</td>'
    return f"<td>{html.escape('' if value is None else str(value))}</td>"
