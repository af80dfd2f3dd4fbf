#!/usr/bin/env python3
"""Draws the loss curves of training logs: in the terminal, and with --svg FILE as a picture.

    python/draw_curve.py log.jsonl [other.jsonl ...] [--svg curve.svg]
"""
import argparse
import json
import math
import pathlib
import shutil

COLOURS = ["#2563eb", "#dc2626", "#16a34a", "#9333ea", "#d97706"]


def read_losses(path):
    """Steps and losses of a log, one JSON object a line."""
    entries = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    if not entries:
        raise SystemExit(f"error: {path} has no steps")
    return [e["step"] for e in entries], [e["loss"] for e in entries]


def axis_ticks(low, high, count=5):
    """About `count` round numbers between low and high."""
    span = max(high - low, 1e-12)
    unit = 10.0 ** math.floor(math.log10(span / count))
    step = next(unit * k for k in (1, 2, 5, 10) if span / (unit * k) <= count)
    first = -(-low // step)
    return [step * (first + i) for i in range(int((high - first * step) / step + 1e-9) + 1)]


def draw_text(steps, losses, width, height=14):
    """The curve as lines of text, two rows of points in each."""
    low, high = min(losses), max(losses)
    span = (high - low) or 1.0
    columns = width - 9
    rows = [[0] * columns for _ in range(2 * height)]
    for column in range(columns):
        loss = losses[min(len(losses) - 1, column * len(losses) // columns)]
        rows[round((high - loss) / span * (2 * height - 1))][column] = 1
    lines = []
    for row in range(height):
        glyphs = "".join(" ▀▄█"[a + 2 * b] for a, b in zip(rows[2 * row], rows[2 * row + 1]))
        label = f"{high - span * row / (height - 1):7.3f}" if row % 3 == 0 or row == height - 1 else " " * 7
        lines.append(f"{label} │{glyphs.rstrip()}")
    lines.append(" " * 8 + "└" + "─" * columns)
    last = str(steps[-1])
    lines.append(" " * 9 + str(steps[0]) + last.rjust(columns - len(str(steps[0]))))
    return "\n".join(lines)


def draw_svg(curves, width=760, height=420):
    """curves: name -> (steps, losses). Returns the text of an SVG file."""
    left, right, top, bottom = 64, 20, 24, 48
    every = [loss for _, losses in curves.values() for loss in losses]
    low, high = min(every), max(every)
    high += 0.02 * (high - low) or 1.0
    first, last = min(s[0] for s, _ in curves.values()), max(s[-1] for s, _ in curves.values())

    def x(step):
        return left + (step - first) / max(last - first, 1) * (width - left - right)

    def y(loss):
        return top + (high - loss) / (high - low) * (height - top - bottom)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
             'font-family="sans-serif" font-size="13">', f'<rect width="{width}" height="{height}" fill="white"/>']
    for tick in axis_ticks(low, high):
        parts.append(f'<line x1="{left}" x2="{width - right}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="#e5e7eb"/>'
                     f'<text x="{left - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for tick in axis_ticks(first, last, 8):
        parts.append(f'<text x="{x(tick):.1f}" y="{height - bottom + 20}" text-anchor="middle">{tick:g}</text>')
    parts.append(f'<path d="M{left} {top}V{height - bottom}H{width - right}" fill="none" stroke="#374151"/>')
    for i, (name, (steps, losses)) in enumerate(curves.items()):
        points = " ".join(f"{x(s):.1f},{y(v):.1f}" for s, v in zip(steps, losses))
        colour, dash = COLOURS[i % len(COLOURS)], ' stroke-dasharray="5 4"' if i else ""
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"{dash}/>')
        parts.append(f'<text x="{width - right - 8}" y="{top + 18 + 18 * i}" text-anchor="end" fill="{colour}">{name}</text>')
    parts.append(f'<text x="{(left + width) / 2}" y="{height - 8}" text-anchor="middle">step</text>')
    parts.append(f'<text x="16" y="{height / 2}" text-anchor="middle" transform="rotate(-90 16 {height / 2})">loss</text>')
    return "\n".join([*parts, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description="Draws the loss curves of training logs.")
    parser.add_argument("logs", nargs="+", type=pathlib.Path)
    parser.add_argument("--svg", type=pathlib.Path)
    options = parser.parse_args()
    curves = {path.stem: read_losses(path) for path in options.logs}
    width = min(shutil.get_terminal_size((100, 24)).columns, 120)
    for name, (steps, losses) in curves.items():
        print(f"{name}: loss {losses[0]:.4f} -> {losses[-1]:.4f}")
        print(draw_text(steps, losses, width))
    if options.svg:
        options.svg.write_text(draw_svg(curves))
        print(f"wrote {options.svg}")


if __name__ == "__main__":
    main()
