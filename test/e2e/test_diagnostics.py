"""Every diagnostic of the sources is shown by a negative test, or diagnostics.toml says why it cannot be."""
import tomllib

import diagnostics
import harness as h

LIST = h.ROOT / "test" / "e2e" / "diagnostics.toml"


def listed():
    """text -> why no test can show it."""
    texts = [(text, entry["why"]) for entry in tomllib.loads(LIST.read_text())["unreachable"] for text in entry["texts"]]
    assert len(dict(texts)) == len(texts), "a text stands in diagnostics.toml twice"
    return dict(texts)


def test_every_diagnostic_is_shown():
    shown, excused = diagnostics.shown(), listed()
    missing = [f"{found.file}:{found.line}: {found.text}" for found in diagnostics.diagnostics()
               if found not in shown and found.key not in excused]
    assert not missing, "no test shows\n" + "\n".join(missing) + f"\nWrite one, or say in {LIST.name} why there is none."


def test_the_list_is_of_diagnostics_that_are_not_shown():
    keys = {found.key for found in diagnostics.diagnostics()}
    shown = {found.key: test for found, test in diagnostics.shown().items()}
    stale = [f"{text}: {'shown by ' + shown[text] if text in shown else 'no such diagnostic'}"
             for text in listed() if text in shown or text not in keys]
    assert not stale, f"{LIST.name} lists\n" + "\n".join(stale)


def test_sources_and_expectations_are_found():
    """The scanner sees each form, so that a change of style does not silently empty the lists."""
    texts = {found.file: [] for found in diagnostics.diagnostics()}
    for found in diagnostics.diagnostics():
        texts[found.file].append(found.text)
    for file, text in {
            "dialects/nn/ops/Reduce.cpp": "kind must be sum, max, min or prod, not '{}'",             # emitOpError
            "dialects/dist/Axis.cpp": "the mesh has more than {} ranks, the most that programs are made for",  # return
            "lib/Import/ops/Conv.cpp": "auto_pad '{}' is unknown",                                    # fail
            "lib/Driver/ModelCommand.cpp": "--threads={}: expected at most 65536",                    # usage
            "passes/Assign/PlanReader.h": "\"{}\" must be a string",                                  # error(..) <<
            "runtime/storage/npy.cpp": "has the unknown key '{}'"}.items():                           # throw Error
        assert text in texts[file], file
    folders = {test.split("/")[0] + "/" + test.split("/")[1] for test in diagnostics.shown().values()}
    assert {"test/dialects", "test/passes", "test/e2e", "test/unit", "runtime/storage"} <= folders
