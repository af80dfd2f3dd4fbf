"""What it costs to keep the state in two places, and to write checkpoints beside the steps; `tools/bench elastic` is the way in."""
import json
import shutil
import statistics
import subprocess
import sys
import time

WARM, STEPS = 4, 24  # steps, the first of which do not count


def step_times(command, log):
    """Seconds from one step's end to the next one's, checkpoints and all."""
    log.unlink(missing_ok=True)
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    ends = []
    while process.poll() is None:
        done = log.read_bytes().count(b"\n") if log.exists() else 0
        ends += [time.monotonic()] * (done - len(ends))
        time.sleep(0.002)
    if process.returncode:
        sys.exit(f"error: {process.stdout.read()}")
    return [after - before for before, after in zip(ends[WARM:], ends[WARM + 1:])]


def check_promise(program, threads, stats):
    promised = json.loads(subprocess.run([program, "info", "--json", "--slots", "2", "--threads", threads], check=True, capture_output=True, text=True).stdout)["memory"]
    measured = json.loads(stats.read_text())["memory"]
    for ours, theirs in zip(promised, measured, strict=True):
        if ours["shared"] != theirs["shared"] or ours["device"]["peak"] != theirs["device"]["peak"]:
            sys.exit(f"error: promised {ours}, measured {theirs}")
    return measured[0]["shared"], measured[0]["device"]["peak"]


def prices(programs, data, folder, rounds):
    """`programs`: the command of each, by what it is called. In turns, so that all see the same machine."""
    for name, (program, threads) in programs.items():
        checkpoints, log, stats = folder / "slot_checkpoints", folder / "slots.jsonl", folder / "slots.json"
        train = [program, "train", "--tokens", data, "--threads", threads, "--steps", STEPS, "--log", log, "--checkpoint", checkpoints]
        ways = {"none": ("--every", 1000, "--slots", 1), "slots": ("--every", 1000, "--slots", 2, "--stats", stats), "written": ("--every", 10, "--slots", 2, "--keep", 2)}
        ratios = {"slots": [], "written": []}
        for _ in range(rounds):
            times = {}
            for way, more in ways.items():
                shutil.rmtree(checkpoints, ignore_errors=True)
                times[way] = step_times([*train, *more], log)
                if way == "slots":
                    shared, device = check_promise(program, str(threads), stats)
            ratios["slots"].append(statistics.median(times["slots"]) / statistics.median(times["none"]))
            ratios["written"].append(statistics.mean(times["written"]) / statistics.mean(times["none"]))
        shown = {way: f"{statistics.median(r):.3f} x ({min(r):.3f} to {max(r):.3f})" for way, r in ratios.items()}
        print(f"  {name}, step of {statistics.median(times['none']):.3f} s: two slots {shown['slots']}, with a checkpoint every ten steps {shown['written']}; "
              f"{shared / 2**20:.1f} MiB beside {device / 2**20:.1f}, as promised", flush=True)
