"""Five jobs on eight places of this machine, for real: a GPT, a BERT, a ViT and two multilayer perceptrons, shared by FIFO and then by ONES.

Ranks are processes under mpirun, paced so that a step takes as long as on a machine where every rank has a processor of its own; a rank of the GPT is
killed on the way. Ends with an error unless all jobs reach their targets, the mean completion is below FIFO's, and within 15 % of what was simulated."""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
TESSERA = pathlib.Path(os.environ.get("TESSERA_BUILD", ROOT / "build")) / "bin" / "tessera"
MODELS = ROOT / "test" / "models"
PLACES = 8
# model, batch, arrival (s), steps, samples/s on 1, 2 and 4 places; each asks for 4
JOBS = {
    "gpt": ("gpt2", 4, 0, 160, {1: 5.0, 2: 9.0, 4: 14.0}),
    "bert": ("bert", 4, 2, 160, {1: 5.0, 2: 8.5, 4: 13.0}),
    "vit": ("vit", 4, 4, 80, {1: 5.0, 2: 9.0, 4: 15.0}),
    "mlp-a": ("mlp", 12, 6, 40, {1: 15.0, 2: 27.0, 4: 45.0}),
    "mlp-b": ("mlp", 12, 8, 30, {1: 15.0, 2: 27.0, 4: 45.0}),
}
KILL_AFTER = 12  # seconds
MPIRUN = "mpirun -n {ranks} --oversubscribe --bind-to none" + (" --allow-run-as-root" if os.getuid() == 0 else "")


def say(text):
    print(f"\n== {text}", flush=True)


def program(out, job):
    """A script that paces the executable, whatever its size."""
    model, batch, _, _, rates = JOBS[job]
    executable = out / model
    if not executable.exists():
        subprocess.run([TESSERA, "compile", MODELS / f"{model}.onnx", "-o", executable, "--train", "adamw", "--dp", "4", "--sizes", "1,2,4"], check=True)
    script = out / f"{job}.sh"
    seconds = ",".join(f"{places}={batch / rate:.4f}" for places, rate in rates.items())
    script.write_text(f'#!/bin/sh\nTESSERA_STEP_SECONDS={seconds} exec {executable} "$@"\n')
    script.chmod(0o755)
    return script


def training_data(out, model, executable):
    """Arguments that name the reference's batches, as arrays, for the inputs that the program has."""
    arguments = []
    info = subprocess.run([executable, "info", "--json", "--program", "train"], check=True, capture_output=True).stdout
    inputs = {entry["name"] for entry in json.loads(info)["inputs"]}
    with np.load(MODELS / f"{model}.reference.npz") as reference:
        for key in reference.files:
            if key.startswith("train.") and key[6:] in inputs:
                path = out / f"{model}.{key[6:]}.npy"
                np.save(path, reference[key])
                arguments += ["--data", f"{key[6:]}={path}"]
    return arguments


def measured_costs(out, script, arguments):
    """Seconds of a start on four ranks, and of going from there to two."""
    log, checkpoints = out / "one.jsonl", out / "one"
    shutil.rmtree(checkpoints, ignore_errors=True)
    log.unlink(missing_ok=True)
    command = MPIRUN.replace("{ranks}", "4").split() + [script, "train", *arguments, "--steps", "1000", "--log", log, "--checkpoint", checkpoints, "--every", "1000"]
    begin = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as training:
        while not log.exists() or not log.read_text().endswith("\n"):
            if training.poll() is not None:
                sys.exit(f"error: {' '.join(map(str, command))} ended with status {training.returncode}")
            time.sleep(0.01)
        start = time.monotonic() - begin - json.loads(log.read_text().splitlines()[0])["seconds"]
        (checkpoints / "new").write_text("size = 2")
        os.rename(checkpoints / "new", checkpoints / "control")
        resize = next(float(found[1]) for found in (re.search(r"resized to 2 .*\(([0-9.]+) s\)", line) for line in training.stdout) if found)
        training.send_signal(signal.SIGKILL)
    return start, resize


def write_files(out):
    jobs, arguments = [], {}
    for name, (model, batch, arrival, steps, rates) in JOBS.items():
        script = program(out, name)
        arguments[name] = ["--lr", "1e-3", "--threads", "1", *training_data(out, model, script)]
        jobs.append(f'''[[job]]
name = "{name}"
arrival = {arrival}
places = 4
batch = {batch // 4}
samples = {steps * batch}
throughput = {{{", ".join(f"{places} = {rate}" for places, rate in rates.items())}}}
executable = "{script}"
arguments = {json.dumps(arguments[name])}
every = 5
''')
    (out / "jobs.toml").write_text("\n".join(jobs))
    start, resize = measured_costs(out, script, arguments[name])
    (out / "cluster.toml").write_text(f'[[host]]\nname = "here"\nplaces = {PLACES}\n\n[costs]\nresize = {resize:.2f}\nrestart = {start:.2f}\n')
    print(f"a start takes {start:.1f} s, going from four places to two {resize:.3f} s")


class Killer(threading.Thread):
    """Kills a rank of the GPT once, as soon as it runs when it is time."""

    def __init__(self):
        super().__init__(daemon=True)
        self.launcher, self.done = None, False

    def run(self):
        time.sleep(KILL_AFTER)
        while not self.done:
            ranks = subprocess.run(["pgrep", "-P", self.launcher or "0"], capture_output=True, text=True).stdout.split()
            if self.launcher and ranks:
                print(f"   -> killing rank process {ranks[-1]} of the GPT", flush=True)
                os.kill(int(ranks[-1]), signal.SIGKILL)
                self.done = True
            time.sleep(0.5)


def run(out, policy, killer=None):
    """The report of the schedule; `killer` is told the process that starts the GPT's ranks."""
    shutil.rmtree(out / policy, ignore_errors=True)
    command = [TESSERA, "schedule", out / "jobs.toml", "--cluster", out / "cluster.toml", "--policy", policy, "--launcher", MPIRUN,
               "--in", out / policy, "--json", out / f"{policy}.json", "--report", out / f"{policy}.html"]
    schedule = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    if killer:
        killer.start()
    for line in schedule.stdout:
        print("  ", line.rstrip(), flush=True)
        started = re.search(r" gpt: .* process (\d+)", line)
        if started and killer:
            killer.launcher = started[1]
    if schedule.wait() != 0:
        sys.exit(f"error: the schedule of {policy} ended with status {schedule.returncode}")
    if killer and not killer.done:
        sys.exit("error: no rank was killed")
    return json.loads((out / f"{policy}.json").read_text())


def check(out, policy):
    for name, (_, _, _, steps, _) in JOBS.items():
        logged = [json.loads(line)["step"] for line in (out / policy / name / "log.jsonl").read_text().splitlines()]
        if logged != list(range(1, steps + 1)):
            sys.exit(f"error: {name} did not do its steps once each under {policy}")


def main():
    sys.stdout.reconfigure(line_buffering=True)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", nargs="?", default=ROOT / "build" / "ones-demo", type=pathlib.Path)
    out = parser.parse_args().out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    say("Compiling each model for 1, 2 and 4 places, in one executable")
    write_files(out)
    reports = {}
    for policy in ("fifo", "ones"):
        say(f"Running the jobs under {policy}" + (", with a rank killed on the way" if policy == "ones" else ""))
        reports[policy] = run(out, policy, Killer() if policy == "ones" else None)
        check(out, policy)
    mean, fifo = reports["ones"]["mean_completion"], reports["fifo"]["mean_completion"]
    forecast = reports["ones"]["forecast_mean_completion"]
    say(f"Mean completion {mean:.1f} s; simulated {forecast:.1f} s ({mean / forecast - 1:+.1%}); under FIFO {fifo:.1f} s ({mean / fifo - 1:+.1%})")
    print(f"Who had which places: {out}/ones.html")
    if mean >= fifo or abs(mean / forecast - 1) > 0.15:
        sys.exit("error: that is not below FIFO's, or not within 15 % of what was simulated")


if __name__ == "__main__":
    main()
