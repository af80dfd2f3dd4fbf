"""Runs lit, every GoogleTest binary, the end-to-end tests of a build and what runs with sanitizers, and sums up; tools/test is the way in."""
import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIMIT = 6 * 3600  # seconds of one runner: the large families take an hour of a machine that has nothing else to do


class Tally:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], []

    def add_junit(self, path, kind, returncode, output):
        """Counts a JUnit report; a runner that failed without a failed test in its report counts as one failure."""
        failed_before = len(self.failed)
        try:
            cases = list(ET.parse(path).getroot().iter("testcase"))
        except (OSError, ET.ParseError):
            cases = []
        for case in cases:
            name = f"{kind}: {case.get('classname', '')}.{case.get('name', '')}"
            skipped = case.find("skipped")
            if case.find("failure") is not None or case.find("error") is not None:
                self.failed.append(name)
            elif skipped is not None or case.get("result") == "skipped" or case.get("status") == "notrun":
                reason = skipped.get("message", "") if skipped is not None else ""
                self.skipped.append((name, " ".join(reason.split())[:200]))
            else:
                self.passed += 1
        if returncode != 0 and len(self.failed) == failed_before:
            self.failed.append(f"{kind}: ended with status {returncode} {output}".strip())


def run_reporting(tally, kind, command, report, env=None, quiet=False, passing=(0,)):
    """Runs one test runner that writes a JUnit report; its output is shown; of a quiet one that does
    not fail only its notes."""
    start = time.monotonic()
    output = ""
    try:
        result = subprocess.run(command, env=env, cwd=ROOT, timeout=LIMIT, text=True,
                                **(dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT) if quiet else {}))
        status, output = result.returncode, result.stdout or ""
    except (OSError, subprocess.TimeoutExpired) as error:
        status, output = 127, str(error)
    if quiet and status not in passing:
        print(output[-20000:])
    elif quiet:
        print("".join(line for line in output.splitlines(keepends=True) if line.startswith("note: ")), end="")
    passed, failed = tally.passed, len(tally.failed)
    tally.add_junit(report, kind, 0 if status in passing else status, output.strip().splitlines()[-1] if output.strip() else "")
    print(f"{kind}: {tally.passed - passed} passed, {len(tally.failed) - failed} failed, "
          f"{time.monotonic() - start:.1f} s", flush=True)


def run_lit(tally, build, folder, kind="lit", parts=(".",), env=None):
    if not any((ROOT / "test").rglob("*.mlir")):
        return
    # The interpreter's first path is lit's own folder; Debian's lit belongs to /usr/bin/python3.
    run_reporting(tally, kind, ["/usr/bin/lit-22", "-sv", "-j2", "--xunit-xml-output", str(folder / f"{kind}.xml"),
                                *(str(build / "test" / part) for part in parts)], folder / f"{kind}.xml", env=env)


def run_gtests(tally, build, folder, env, kind="gtest", names="gtests.txt"):
    binaries = [line for line in (build / names).read_text().splitlines() if line]
    for binary in binaries:
        name = pathlib.Path(binary).name
        report = folder / f"{kind}-{name}.xml"
        run_reporting(tally, f"{kind} {name}", [binary, f"--gtest_output=xml:{report}"], report, env=env, quiet=True)


def run_sanitized(tally, build, folder, env):
    """The runtime's GoogleTests and lit's tests of passes and dialects, with AddressSanitizer and UBSan; what these find ends a
    test. `tessera`, which four of lit's tests call, is the ordinary build's."""
    sanitized = build.with_name("build-asan")
    if not (sanitized / "bin" / "tessera-opt").exists():
        tally.failed.append(f"sanitized: {sanitized} is not built (PRESET=asan tools/build sanitized)")
        return
    env = {**env, "PATH": f"{env['PATH']}{os.pathsep}{build / 'bin'}",
           # LLVM's libraries are not built so, and poison memory of their own.
           "ASAN_OPTIONS": "allow_user_poisoning=0", "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
    run_lit(tally, sanitized, folder, "sanitized-lit", ("dialects", "passes"), env)
    # Open MPI does not free all that it takes.
    env["ASAN_OPTIONS"] += ":detect_leaks=0"
    run_gtests(tally, sanitized, folder, env, "sanitized", "sanitized.txt")


def run_crash(tally, build, folder, env):
    """Every failing call and every state after a loss of power while a checkpoint is written; prints how many."""
    report = folder / "crash.xml"
    run_reporting(tally, "crash", [build / "bin" / "TesseraRtCheckpointTest", "--gtest_filter=Crash.*", "--gtest_brief=1",
                                   f"--gtest_output=xml:{report}"], report, env=env)


def run_fuzz(tally, build, env):
    """A million executions of each reader of untrusted files that knows nothing of MLIR, two at a time."""
    folder = build.with_name("build-fuzz") / "bin"
    readers = ("arrays", "control", "machine", "manifest", "schedule", "trace")
    if missing := [name for name in readers if not (folder / f"fuzz-{name}").exists()]:
        tally.failed.append(f"fuzz: {missing} are not built (PRESET=fuzz tools/build fuzz-readers)")
        return

    def run(name):
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="tessera-fuzz-") as work:
            command = [folder / f"fuzz-{name}", "-runs=1000000", "-timeout=60", "-rss_limit_mb=4096", "-max_len=4096", f"-artifact_prefix={build}/", work,
                       ROOT / "test" / "fuzz" / "Inputs" / name]
            result = subprocess.run([str(word) for word in command], env=env, capture_output=True, text=True, errors="replace")
        if result.returncode:
            print(result.stderr[-5000:])
        print(f"fuzz {name}: {'1000000 executions, clean' if result.returncode == 0 else 'failed'}, {time.monotonic() - start:.0f} s", flush=True)
        return name, result.returncode

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name, status in pool.map(run, readers):
            if status:
                tally.failed.append(f"fuzz {name}: status {status}")
            else:
                tally.passed += 1


def run_slurm(tally, folder, env):
    """A training that a Slurm of the test's own preempts."""
    report = folder / "slurm.xml"
    run_reporting(tally, "slurm", [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "-rs", f"--junitxml={report}",
                                   f"--basetemp={folder / 'tmp'}", "test/e2e/test_slurm.py"], report, env={**env, "TESSERA_TEST_SLURM": "1"})


def run_e2e(tally, build, folder, env):
    # Compiling is one thread's work, so tests run beside each other; a program's ranks are few.
    workers = min(len(os.sched_getaffinity(0)), 8)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "-rs",
               "-n", str(workers), "--dist", "worksteal",
               f"--junitxml={folder / 'e2e.xml'}", f"--basetemp={folder / 'tmp'}", "test/e2e"]
    run_reporting(tally, "e2e", command, folder / "e2e.xml", env=env)


def main():
    parser = argparse.ArgumentParser(description="Runs the tests of a build.")
    parser.add_argument("--all", action="store_true", help="run the large families whole")
    parser.add_argument("--only", choices=["lit", "gtest", "e2e", "sanitized", "crash", "fuzz"],
                        help="run one kind; crash is of gtest")
    parser.add_argument("--slurm", action="store_true", help="run only a training in the queue of a Slurm on this machine, preempted five times (some minutes)")
    parser.add_argument("--sanitized", action="store_true", help="run the sanitized build's tests too (tools/test builds it)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    options = parser.parse_args()

    if options.slurm:
        options.only = "slurm"
    tally = Tally()
    env = {**os.environ, "TESSERA_BUILD": str(options.build), "TESSERA_TEST_ALL": "1" if options.all else "0",
           "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryDirectory(prefix="tessera-test-") as folder:
        folder = pathlib.Path(folder)
        if options.only in (None, "lit"):
            run_lit(tally, options.build, folder)
        if options.only in (None, "gtest"):
            run_gtests(tally, options.build, folder, env)
        if options.only in (None, "e2e"):
            run_e2e(tally, options.build, folder, env)
        if options.only == "slurm":
            run_slurm(tally, folder, env)
        if options.only == "crash":
            run_crash(tally, options.build, folder, env)
        if options.only == "fuzz":
            run_fuzz(tally, options.build, env)
        if options.only == "sanitized" or (options.sanitized and not options.only):
            run_sanitized(tally, options.build, folder, env)

    for name, reason in tally.skipped:
        print(f"skipped {name}: {reason or 'no reason given'}")
    for name in tally.failed:
        print(f"FAILED {name}")
    print(f"{tally.passed} passed, {len(tally.failed)} failed, {len(tally.skipped)} skipped")
    sys.exit(1 if tally.failed or not tally.passed else 0)


if __name__ == "__main__":
    main()
