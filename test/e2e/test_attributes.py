"""Discardable attributes are declared once (dialects/*/Attributes.h); nobody else spells their names."""
import pathlib
import re
import subprocess

import diagnostics

ROOT = pathlib.Path(__file__).resolve().parents[2]
DECLARATION = re.compile(r'"((?:nn|dist|exec)\.\w+)"')


def sources():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "dialects", "passes", "lib", "tools"], cwd=ROOT,
                            check=True, capture_output=True, text=True).stdout.split()
    return [ROOT / file for file in listed if file.endswith((".cpp", ".h", ".td")) and (ROOT / file).exists()]


def strings(text):
    """The string literals of C++ or TableGen."""
    return [match["string"] for match in diagnostics.TOKEN.finditer(text) if match["string"]]


def test_names_of_attributes_stand_where_they_are_declared():
    declared = {}
    for file in ROOT.glob("dialects/*/Attributes.h"):
        for name in DECLARATION.findall(file.read_text()):
            assert name not in declared, f"{name} is declared twice"
            declared[name] = file
    assert {"nn.kind", "dist.pattern", "exec.extent"} <= set(declared)
    name = re.compile(r"(?<![\w.])(" + "|".join(map(re.escape, declared)) + r")(?![\w.])")
    found = [f"{file.relative_to(ROOT)}: {spelled} in {literal}" for file in sources() for literal in strings(file.read_text())
             for spelled in name.findall(literal) if file != declared[spelled] and file.suffix != ".td"]
    assert not found, "spelled again:\n" + "\n".join(found) + "\nUse the constant, or its name."


def test_declared_attributes_are_verified():
    """The list that a dialect verifies by is complete: a name it lacks would be refused in every text."""
    for file in ROOT.glob("dialects/*/Attributes.h"):
        constants = re.findall(r'\b(k\w+)\{\s*"\w+\.', file.read_text())
        listed = re.search(r"kDeclared\[\] = \{(.*?)\};", file.with_suffix(".cpp").read_text(), re.S)[1]
        assert sorted(constants) == sorted(re.findall(r"&(k\w+)", listed)), file
