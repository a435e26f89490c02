"""Bar charts as plain SVG, for reports: no plotting library, nothing to install.

A chart has groups on its x axis (shapes of load) and one bar per series in each (durability modes); the figure stands on the bar.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 900, 420, 70, 60, 60
COLOURS = ("#4878d0", "#ee854a", "#6acc64", "#d65f5f", "#956cb4", "#8c613c")


def bar_chart(path: Path, title: str, unit: str, groups: Mapping[str, Mapping[str, float]]) -> None:
    """Writes groups[group][series] = value as one SVG file. Raises ValueError without values."""
    series = list(dict.fromkeys(name for values in groups.values() for name in values))
    highest = max((value for values in groups.values() for value in values.values()), default=0.0)
    if highest <= 0:
        raise ValueError("nothing to draw")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{WIDTH / 2}" y="24" text-anchor="middle" font-size="16">{escape(title)}</text>',
        f'<text x="16" y="{HEIGHT / 2}" transform="rotate(-90 16 {HEIGHT / 2})" text-anchor="middle">{escape(unit)}</text>',
    ]
    slot = (WIDTH - LEFT - 20) / len(groups)
    bar = slot * 0.8 / len(series)
    scale = (HEIGHT - BOTTOM - TOP - 20) / highest
    base = HEIGHT - BOTTOM
    for number, (group, values) in enumerate(groups.items()):
        left = LEFT + slot * number + slot * 0.1
        parts.append(f'<text x="{left + slot * 0.4:.1f}" y="{base + 18}" text-anchor="middle">{escape(group)}</text>')
        for place, name in enumerate(series):
            if name not in values:
                continue
            height = values[name] * scale
            x = left + bar * place
            colour = COLOURS[place % len(COLOURS)]
            parts.append(f'<rect x="{x:.1f}" y="{base - height:.1f}" width="{bar * 0.9:.1f}" height="{height:.1f}" fill="{colour}"/>')
            parts.append(
                f'<text x="{x + bar * 0.45:.1f}" y="{base - height - 4:.1f}" text-anchor="middle" font-size="10">{values[name]:,.0f}</text>'
            )
    for place, name in enumerate(series):
        x = LEFT + (WIDTH - LEFT) / len(series) * place
        parts.append(f'<rect x="{x:.1f}" y="{HEIGHT - 24}" width="12" height="12" fill="{COLOURS[place % len(COLOURS)]}"/>')
        parts.append(f'<text x="{x + 16:.1f}" y="{HEIGHT - 14}">{escape(name)}</text>')
    parts.append(f'<line x1="{LEFT}" y1="{base}" x2="{WIDTH - 20}" y2="{base}" stroke="black"/></svg>')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(parts), encoding="utf-8")
