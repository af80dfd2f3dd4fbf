"""Writes docs/patterns.md and docs/ops.md from the compiler itself; with --check it only says whether they are current.

Needs `tessera` and `llvm-tblgen` on PATH:  PATH=build/bin:/usr/lib/llvm-22/bin:$PATH python3 docs/generate.py
"""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
NOTE = "<!-- Written by docs/generate.py; edit what it reads, not this file. -->\n"
DIALECTS = {"nn": ["dialects/nn/NNOps.td", "dialects/nn/Panel.td", "dialects/nn/Epilogue.td"], "dist": ["dialects/dist/DistOps.td"],
            "exec": ["dialects/exec/ExecOps.td"]}
INTERFACES = {"DifferentiableOpInterface": "gradient", "LowerableOpInterface": "kernel", "LibraryOpInterface": "library",
              "TrainingOpInterface": "training"}

CHOICES = """## Where ONNX leaves a choice

- `TopK`: NaN is above all other numbers, as numpy and torch sort; equal elements stand in the order of their indices.
- `ArgMax`, `ArgMin`: the first NaN, if there is one. `Max`, `Min` and their reductions: NaN wins; which of 0 and -0 is the larger is not said.
- A sum starts from -0, so that one of nothing but -0 is -0; of no elements it is 0.
- `Pow` with a known exponent of 0.5 is a square root, as in numpy and torch: of -0 it is -0, of -inf NaN. Other powers are IEEE 754's.
- `ReduceL2`, `ReduceLogSum` and `ReduceLogSumExp` of integers are computed in f64 and truncated; `ReduceMean` of integers is a truncated quotient.
- `Range` of integers is exact. `Scatter*` without a reduction must name each place once.
- `AveragePool` is a sum divided by a count, in f32 where elements are bf16 or f16.
"""


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout


def patterns():
    """`name [axes]` lines, each with an indented paragraph, as `--list-patterns` prints them."""
    lines = [NOTE, "# Patterns\n", "What `tessera compile --list-patterns` prints: each pattern with its mesh axes and what it sends.\n"]
    for block in output("tessera", "compile", "--list-patterns").strip().split("\n\n"):
        title, _, paragraph = block.partition("\n")
        name, _, axes = title.partition(" ")
        lines.append(f"## `{name}` {axes}\n\n{paragraph.strip()}\n")
    return "\n".join(lines)


def one_line(text):
    return " ".join(text.split()).replace("|", "\\|")


def described(text):
    """The description, without the indentation it has in its file."""
    lines = text.strip("\n").splitlines()
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(line[indent:].rstrip() for line in lines).strip()


def operators(dialect, files):
    """(mnemonic, record, interfaces) of every operator that the files define."""
    found = {}
    for file in files:
        records = json.loads(output("llvm-tblgen", "--dump-json", "-I", "/usr/lib/llvm-22/include", "-I", ".", file))
        for name in records["!instanceof"]["Op"]:
            if records[records[name]["opDialect"]["def"]]["name"] == dialect:
                found[records[name]["opName"]] = (records[name], interfaces(records[name], records))
    return sorted((name, *rest) for name, rest in found.items())


def interfaces(record, records):
    named = {records[trait["def"]].get("cppInterfaceName", "") for trait in record["traits"]}
    words = [word for interface, word in INTERFACES.items() if interface in named]
    why = [records[trait["def"]]["reason"] for trait in record["traits"] if "reason" in records[trait["def"]]]
    return words + [f"no gradient: {reason}" for reason in why]


def ops():
    lines = [NOTE, "# Operators\n", "From the `.td` files. *gradient*: has one, or why it has none; *kernel*: can be lowered to linalg; *library*: the runtime's library computes it "
             "where it can; *training*: outside of training it is something simpler. "
             "The factor rule of an operator is printed by `tessera-opt --tessera-print-factor-rules`.\n"]
    for dialect, files in DIALECTS.items():
        listed = operators(dialect, files)
        lines.append(f"## `{dialect}`\n\n| operator | | |\n|---|---|---|")
        lines += [f"| `{dialect}.{name}` | {one_line(op['summary'])} | {', '.join(words)} |" for name, op, words in listed]
        lines.append("")
        for name, op, _ in listed:
            if text := described(op["description"]):
                lines.append(f"**`{dialect}.{name}`**: {text}\n")
    lines.append(CHOICES)
    return "\n".join(lines)


def main():
    check = sys.argv[1:] == ["--check"]
    stale = []
    for name, text in (("patterns.md", patterns()), ("ops.md", ops())):
        path = ROOT / "docs" / name
        if not check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(f"docs/{name}")
    if stale:
        sys.exit(f"{', '.join(stale)} is not what docs/generate.py writes; run it and commit the result")


if __name__ == "__main__":
    main()
