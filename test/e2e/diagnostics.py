"""The diagnostics of the sources and the expectations of the tests, both as text; test_diagnostics.py compares them.

A *diagnostic* is a call that reports (`REPORTERS`), with all that is put into it by `<<`, or a sentence that a function
gives back for another to report (`return {"..."}`, `why = "..."`). Its *pieces* are its literals, adjacent ones joined;
a text is written with `{}` for what stands between them.

An *expectation* is what a test looks for: `expected-error {{..}}`, a line of FileCheck, a string in Python or in a
GoogleTest. What varies in it (`{{.*}}`, `.*`) ends a run of words. It shows
- each diagnostic that it has whole: all pieces that are always there, in order;
- of those with which it shares a run of three words, the one with which it shares the most (of equals, the most words);
  what fits several texts equally well shows none of them.
The runtime's tests are not of the compiler.
"""
import ast
import bisect
import collections
import dataclasses
import functools
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Functions, lambdas and classes that make a diagnostic of their arguments.
REPORTERS = {
    "emitOpError", "emitError", "emitWarning", "emitRemark", "inferError", "attachNote",  # MLIR's, and for inference
    "createStringError", "Error", "ImportError", "UsageError", "AgreedError", "PeerFailed", "RendezvousRefused",
    "fail", "error", "refuse", "wrong", "broken", "usage", "stop", "gone", "notes.push_back",
}
# Variables that hold a diagnostic, or the reason that becomes a part of one.
HOLDERS = {"error", "warning", "diagnostic", "why", "note", "problem", "waiting"}
# What sentences that describe and do not complain are given back by.
DESCRIBING = {"doc", "getDescription", "description", "costText", "MlirOptMain"}
# Says why a rewrite does not apply: for --debug-only, not for users.
SILENT = {"notifyMatchFailure", "mismatch"}

# What is told apart by folder: the checking driver and the conformance suites are tests themselves.
SOURCES = re.compile(r"(dialects|passes|lib|tools|runtime|include)/.*\.(cpp|h|td|c)")
NOT_SOURCES = re.compile(r".*/test/|.*_test\.cpp|runtime/device/cuda/check/|runtime/cts/")
TESTS = re.compile(r"test/(?!fuzz/|models/).*\.(mlir|test)|test/e2e/(test_|hostile_).*\.py|(test|runtime)/.*(_test|Test|/cases)\.cpp")

TOKEN = re.compile(r"""
    (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<raw>R"(?P<mark>[^()\s\\]*)\(.*?\)(?P=mark)")
  | (?P<string>"(?:\\.|[^"\\\n])*")
  | (?P<char>'(?:\\.|[^'\\\n])+')
  | (?P<number>\.?\d(?:[\w.']|[eEpP][+-])*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<other><<|::|->|==|\S)""", re.X | re.S)
WORD = re.compile(r"\w+")
GAP = "\0"
RUN = 3


@dataclasses.dataclass(frozen=True)
class Diagnostic:
    file: str
    line: int
    pieces: tuple
    fixed: tuple  # the pieces that are always there: no choice of `condition ? "this" : "that"`

    @property
    def text(self):
        return "{}".join(self.pieces).strip()

    @property
    def key(self):
        return f"{self.file}: {self.text}"


def tracked(pattern, but=None):
    """Files of the checkout; those that are not added yet, too."""
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True,
                           text=True, check=True).stdout.split("\0")
    return sorted(name for name in set(names)
                  if pattern.fullmatch(name) and not (but and but.match(name)) and (ROOT / name).exists())


def unescaped(literal):
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), literal[1:-1])


class Source:
    """The tokens of one C++ or TableGen file."""

    def __init__(self, name):
        self.name = name
        text = (ROOT / name).read_text()
        self.starts = [0] + [m.end() for m in re.finditer("\n", text)]
        matches = [m for m in TOKEN.finditer(text) if m.lastgroup != "comment"]
        self.kinds = ["raw" if m["raw"] else m.lastgroup for m in matches]
        self.tokens = [m.group() for m in matches]
        self.places = [m.start() for m in matches]

    def at(self, i):
        return self.tokens[i] if 0 <= i < len(self.tokens) else ""

    def line(self, i):
        return bisect.bisect_right(self.starts, self.places[i])

    def close(self, i):
        """The bracket that closes the one at `i`."""
        depth = 0
        for j in range(i, len(self.tokens)):
            if self.kinds[j] == "other":
                depth += (self.tokens[j] in ("(", "[", "{")) - (self.tokens[j] in (")", "]", "}"))
                if depth == 0:
                    return j
        return len(self.tokens) - 1

    def until(self, i, ends):
        """The first token from `i` that is one of `ends`, or closes a bracket around `i`."""
        while i < len(self.tokens) and not (self.kinds[i] == "other" and self.tokens[i] in ends + (")", "]", "}")):
            i = self.close(i) + 1 if self.kinds[i] == "other" and self.tokens[i] in ("(", "[", "{") else i + 1
        return i

    def end(self, i):
        """Behind the diagnostic that begins at `i`; None where none does."""
        if self.kinds[i] != "word":
            return None
        word, following = self.tokens[i], self.at(i + 1)
        called = f"{self.at(i - 2)}.{word}" if self.at(i - 1) == "." else word
        if (word in REPORTERS or called in REPORTERS) and following in ("(", "{"):
            end = self.close(i + 1) + 1
            return self.until(end, (";", ",")) if self.at(end) == "<<" else end
        if word in SILENT:
            return self.close(i + 1) + 1
        if word == "return":
            back = self.tokens[max(0, i - 20):i + 3]
            return None if DESCRIBING & set(back) else self.until(i + 1, (";",))
        if word in HOLDERS and following in ("<<", "=") and self.at(i - 1) not in (".", "->", "<<"):
            return self.until(i + 2, (";",))
        if word in HOLDERS and following == "+" and self.at(i + 2) == "=":
            return self.until(i + 3, (";",))
        return None

    def is_key(self, i):
        """Whether the literal is asked for, `table.get("axis")`, and no part of a text."""
        asks = self.at(i - 1) == "(" and self.at(i + 1) == ")" and self.at(i - 3) in (".", "->")
        return asks and self.at(i - 2) in ("get", "at", "attribute", "contains", "has")

    def literals(self, span):
        """Joined literals of tokens `span`, and which of them are always there."""
        pieces, fixed, last = [], [], None
        for i in span:
            if self.kinds[i] == "string" and not self.is_key(i):
                text = unescaped(self.tokens[i])
                if last == i - 1:
                    pieces[-1] += text
                else:
                    pieces.append(text)
                    fixed.append(self.at(i - 1) not in ("?", ":"))
                last = i
        return tuple(pieces), tuple(piece for piece, always in zip(pieces, fixed) if always)

    def expressions(self):
        """The literals of each argument and statement, one after the other: `"cannot open '" + path + "'"`."""
        parts = []
        for i, kind in enumerate(self.kinds):
            if kind == "string":
                parts += [] if parts and self.kinds[i - 1] == "string" else [GAP] * bool(parts)
                parts.append(unescaped(self.tokens[i]))
            elif kind == "other" and self.tokens[i] in (",", ";", "{", "}"):
                yield "".join(parts)
                parts = []

    def diagnostics(self):
        owner, called = {}, set()
        for i in range(len(self.tokens)):
            end = self.end(i)
            if end is not None:
                called |= {i} if self.at(i + 1) in ("(", "{") and self.tokens[i] != "return" else set()
                owner.update((j, i) for j in range(i, end))  # one within another begins later and takes its own
        spans = collections.defaultdict(list)
        for j, i in owner.items():
            spans[i].append(j)
        for i, span in sorted(spans.items()):
            pieces, fixed = self.literals(span)
            words = max((len(piece.split() if i not in called else WORD.findall(piece)) for piece in pieces), default=0)
            if words >= (1 if i in called else 3) and self.tokens[i] not in SILENT:
                yield Diagnostic(self.name, self.line(i), pieces, fixed)


@functools.cache
def diagnostics():
    return tuple(found for name in tracked(SOURCES, NOT_SOURCES) for found in Source(name).diagnostics())


def python_strings(text):
    """The strings of a Python file that are no docstrings, each as a list of words."""
    tree = ast.parse(text)
    parts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            parts.add(node.value)
        if isinstance(node, ast.JoinedStr):
            parts.update(node.values)
            yield GAP.join(value.value for value in node.values if isinstance(value, ast.Constant))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in parts:
            yield node.value


def expectations_of(name):
    """(line, text) of what the test `name` looks for."""
    text = (ROOT / name).read_text()
    if name.endswith(".py"):
        for found in python_strings(text):
            # An escape of a regular expression is a letter itself or stands for any.
            yield re.sub(r"\\[dwsDWSb][+*]?|\.[+*]\??|\[[^]]*\][+*]|\|", GAP, found)
    elif name.endswith((".cpp", ".h")):
        yield from Source(name).expressions()
    else:
        for line in text.splitlines():
            if match := re.search(r"expected-(?:error|warning|remark|note)(?:-re)?[^{]*\{\{(.*)\}\}", line):
                yield re.sub(r"\{\{.*?\}\}", GAP, match[1])
            elif match := re.match(r"\s*(?://|#|;)?\s*[A-Z][A-Z0-9_-]*(?<!-NOT):(.*)", line):
                if not re.match(r"\s*(?://|#)?\s*RUN:", line):
                    yield re.sub(r"\{\{.*?\}\}|\[\[.*?\]\]", GAP, match[1])


def runs(words, length):
    return {tuple(words[i:i + length]) for i in range(len(words) - length + 1)}


def whole(found):
    """A regular expression of a text: its pieces that are always there, in order; a single word with its punctuation."""
    pieces = [piece for piece in found.fixed or found.pieces if WORD.search(piece)]
    words = [WORD.findall(piece) for piece in pieces]
    if sum(map(len, words)) == 1:
        return re.compile(re.escape(pieces[0].strip()))
    return re.compile(r"\b" + r"\b.*\b".join(r"\W+".join(piece) for piece in words) + r"\b", re.S)


@functools.cache
def shown():
    """The diagnostics that an expectation shows, each with the first test that does."""
    by_run, in_brief, vocabulary, patterns = collections.defaultdict(set), set(), {}, {}
    for found in diagnostics():
        pieces = [WORD.findall(piece) for piece in found.pieces]
        vocabulary[found] = set(word for piece in pieces for word in piece)
        patterns[found] = whole(found)
        for piece in pieces:
            for run in runs(piece, RUN):
                by_run[run].add(found)
        if max(map(len, pieces)) < RUN:
            in_brief.add(found)

    result = {}
    for name in tracked(TESTS):
        for expectation in expectations_of(name):
            words = [word for part in expectation.split(GAP) for word in [*WORD.findall(part), GAP]]
            shared = collections.Counter(found for run in runs(words, RUN) for found in by_run.get(run, ()))
            scores = {found: (count, len(vocabulary[found] & set(words))) for found, count in shared.items()}
            best = [found for found, score in scores.items() if score == max(scores.values())]
            if len({found.text for found in best}) > 1:
                best = []
            best += [found for found in in_brief.union(shared) if patterns[found].search(expectation)]
            for found in best:
                if not name.startswith("runtime/") or found.file.startswith("runtime/"):
                    result.setdefault(found, name)
    return result
