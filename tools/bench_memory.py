"""Programs below caps of the device's memory against the same ones without; `tools/bench memory` is the way in.

Copies between the tiers are paced (`--pace`), for on a CPU both tiers are one memory. What is timed is checked first to compute
the same; programs then run in turns, and each figure is the median of the rounds.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tomllib

import numpy as np
import onnx

ROOT = pathlib.Path(__file__).resolve().parents[1]
TESSERA = ROOT / "build" / "bin" / "tessera"
sys.path.insert(0, str(ROOT / "test" / "e2e"))
import small_gpt  # noqa: E402

# Bytes a second of the link for each parameter and each second of computing: 50 GB/s beside OPT-6.7B, batch 8 x 2048, at 474 TFLOP/s.
LINK = 50e9 * 1.57 / 6.66e9
HOSTS = (1.5e9, 3e9)  # elements a second that a host updates beside that
POLICIES = ("patrickstar", "elixir", "zero-offload")


def run(*command, check=True):
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if check and result.returncode:
        sys.exit(f"error: status {result.returncode}: {' '.join(map(str, command))}\n{result.stderr[-3000:]}")
    return result


def make_model(path, layers, width, heads, vocabulary, batch, tokens):
    """A GPT, its weights in a file beside it; the number of its parameters."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        small_gpt.HEADS = heads
        whole = path.with_suffix(".whole")
        saved = onnx.save
        onnx.save = lambda model, _: saved(model, path, save_as_external_data=True, location=path.name + ".data", size_threshold=1024)
        small_gpt.small_gpt(whole, layers, width, vocabulary=vocabulary, batch=batch, tokens=tokens)
        onnx.save = saved
    return layers * (12 * width * width + 13 * width) + (2 * vocabulary + tokens + 2) * width


def changed(text, change):
    """The text of a machine's file whose figures `change` gives anew, by table and key."""
    lines, table = [], ""
    for line in text.splitlines():
        if header := re.match(r"\[+([\w.]+)\]+", line):
            table = header[1]
        if figure := re.match(r"(\w+) = ([\d.e+-]+)", line):
            value = change(table, figure[1], float(figure[2]))
            if value != float(figure[2]):
                line = f"{figure[1]} = {value:.4g}" + line[figure.end():]
        lines.append(line)
    return "\n".join(lines) + "\n"


def scaled(text, factor):
    """All rates of work by one factor: products and kernels, by shape and by class."""
    def change(table, key, value):
        is_rate = (table, key) == ("device", "bandwidth") or table == "rate.products" or (table == "rate.kernels" and key != "launch")
        return value * factor if is_rate else value
    return re.sub(r"\brate = ([\d.e+-]+)", lambda m: f"rate = {float(m[1]) * factor:.4g}", changed(text, change))


def info(program, threads, kind="train"):
    return json.loads(run(program, "info", "--json", "--program", kind, "--threads", threads).stdout)


class Bench:
    def __init__(self, folder, options):
        self.folder, self.options = folder, options

    def compile(self, name, model, *options):
        """A program, or None with the reason where nothing fits."""
        program = self.folder / name
        result = run(TESSERA, "compile", model, "-o", program, "--threads", self.options.threads, *options, check=False)
        if result.returncode:
            print(f"  {name}: {result.stderr.splitlines()[0]}")
            return None
        return program

    def train(self, program, tokens, steps, *options):
        """The losses, and the measured figures."""
        log, stats = self.folder / "log.jsonl", self.folder / "stats.json"
        run(program, "train", "--tokens", tokens, "--steps", steps, "--threads", self.options.threads, "--log", log, "--stats", stats, *options)
        return [json.loads(line)["loss"] for line in log.read_text().splitlines()], json.loads(stats.read_text())

    def tokens(self, vocabulary, count):
        path = self.folder / f"tokens{vocabulary}.bin"
        np.random.default_rng(0).integers(0, vocabulary, count).astype(np.uint16).tofile(path)
        return path

    def check(self, capped, losses, tokens, steps):
        ours, stats = self.train(capped, tokens, steps)
        promised, measured = info(capped, self.options.threads)["memory"][0], stats["memory"][0]
        if ours != losses:
            sys.exit(f"error: {capped.name} computes other losses\n{ours}\n{losses}")
        for tier in ("device", "host", "nvme"):
            if promised[tier]["peak"] != measured[tier]["peak"]:
                sys.exit(f"error: {capped.name} promised {promised[tier]['peak']} bytes of the {tier}, it took {measured[tier]['peak']}")

    def deep(self):
        """48 layers of 1024 in 512 MiB; then with 1 GiB of the host, too, and the rest on NVMe."""
        model = self.folder / "deep" / "gpt.onnx"
        parameters = make_model(model, 48, 1024, 16, 512, 1, 64)
        tokens = self.tokens(512, 20000)
        print(f"deep: {parameters / 1e6:.0f} M parameters, {12 * parameters / 1e9:.1f} GB of state, 512 MiB of the device, 2 steps", flush=True)
        floor = run(TESSERA, "compile", model, "--train", "adamw", "--device-memory", "1", "-o", "/dev/null", "--to", "lower", check=False).stderr
        print("  least possible:", re.search(r"least possible for this plan is (.*?) on", floor)[1])
        whole = self.compile("deep_whole", model, "--train", "adamw")
        losses, stats = self.train(whole, tokens, 2)
        capped = self.compile("deep_capped", model, "--train", "adamw", "--device-memory", "512MiB")
        self.check(capped, losses, tokens, 2)
        print(f"  losses {losses} with and without the cap; {stats['memory'][0]['device']['peak'] / 2**20:.0f} MiB without, "
              f"{info(capped, self.options.threads)['memory'][0]['device']['peak'] / 2**20:.0f} MiB with it", flush=True)
        below = self.compile("deep_nvme", model, "--train", "adamw", "--device-memory", "512MiB", "--host-memory", "1GiB", "--nvme", f"{self.folder}:16GiB")
        if not below:
            return
        self.check(below, losses, tokens, 2)
        memory, moved = info(below, self.options.threads)["memory"][0], info(below, self.options.threads)["moved"]
        print("  the same losses with " + ", ".join(f"{memory[tier]['peak'] / 2**20:.0f} MiB of {tier}" for tier in ("device", "host", "nvme"))
              + f"; a step reads {moved['nvme_read'] / 2**30:.1f} GiB of NVMe and writes {moved['nvme_write'] / 2**30:.1f}", flush=True)

    def speed(self):
        """A GPT of 24 layers, 26 % of its peak, beside a link that stands to its computing as a GPU's."""
        for batch in (4, 8):
            for host in HOSTS:
                self.speed_of(batch, 0.26, host)

    def speed_of(self, batch, part, host):
        model = self.folder / f"mid{batch}" / "gpt.onnx"
        parameters = make_model(model, 24, 384, 6, 4096, batch, 256)
        tokens, steps = self.tokens(4096, 60000), self.options.steps
        whole = self.compile(f"mid{batch}_whole", model, "--train", "adamw", "--dtype", "bf16")
        losses, _ = self.train(whole, tokens, steps)
        # Not of the first run, whose steps are slower.
        compute = statistics.median(self.train(whole, tokens, steps)[1]["step_seconds"] for _ in range(self.options.rounds))
        peak = info(whole, self.options.threads)["memory"][0]["device"]["peak"]
        # The same link and host for both batches: the second has twice the computing beside it.
        machine = self.folder / f"paced{host / 1e6:.0f}.toml"
        if batch == 4:
            rate, update = LINK * parameters / compute, host * 1.57 / 6.66e9 * parameters / compute
            run(whole, "calibrate", "-o", machine, "--threads", self.options.threads)
            text = machine.read_text()
            # What a step took is what the rates are to say.
            paced = {("host", "down"): rate, ("host", "up"): rate, ("host", "update"): update}
            machine.write_text(changed(self.as_measured(model, text, compute), lambda table, key, value: paced.get((table, key), value)))
        host_table = tomllib.loads(machine.read_text())["host"]
        cap, rate, update = int(part * peak), host_table["down"], host_table["update"]
        print(f"speed: {parameters / 1e6:.0f} M parameters, batch {batch} x 256, bf16, {compute:.2f} s a step in {peak / 2**20:.0f} MiB; "
              f"{cap / 2**20:.0f} MiB beside {rate} bytes/s each way, and {update} elements/s on the host", flush=True)
        programs = {"planned": self.compile(f"mid{batch}_planned", model, "--train", "adamw", "--dtype", "bf16", "--device-memory", cap, "--machine", machine)}
        if self.options.policies:
            for policy in POLICIES:
                programs[policy] = self.compile(f"mid{batch}_{policy}", model, "--train", "adamw", "--dtype", "bf16", "--device-memory", cap, "--machine", machine,
                                                "--tier-policy", policy)
        for name, program in programs.items():
            if program:
                self.check(program, losses, tokens, steps)
                self.in_turns(name, whole, program, tokens, machine)

    def as_measured(self, model, text, compute):
        """The machine's rates, all by one factor, so that the estimate of the program without a cap is what was measured."""
        given = self.folder / "calibrated.toml"
        given.write_text(text)
        program = self.compile("scaled", model, "--train", "adamw", "--dtype", "bf16", "--machine", given)
        factor = info(program, self.options.threads)["step_seconds"] / compute
        print(f"  the calibrated estimate is {factor:.2f} x what a step takes; its rates are scaled by that")
        return scaled(text, factor)

    def in_turns(self, name, whole, capped, tokens, machine):
        rounds = []
        for _ in range(self.options.rounds):
            rounds.append((self.train(whole, tokens, self.options.steps)[1]["step_seconds"],
                           self.train(capped, tokens, self.options.steps, "--pace", machine)[1]["step_seconds"]))
        a, b = (statistics.median(times) for times in zip(*rounds))
        promised = info(capped, self.options.threads)
        moved = sum(promised["moved"].values()) / 2**20
        print(f"  {name}: {b:.3f} s, {promised['step_seconds']:.3f} s promised ({promised['step_seconds'] / b - 1:+.0%}); without a cap {a:.3f} s: "
              f"{a / b:.0%} of its speed; {moved:.0f} MiB moved", flush=True)

    def infer(self):
        """Parameters of ten times the cap."""
        model = self.folder / "infer" / "gpt.onnx"
        parameters = make_model(model, 24, 384, 6, 512, 1, 256)
        whole = self.compile("infer_whole", model)
        np.save(self.folder / "ids.npy", np.random.default_rng(1).integers(0, 512, (1, 256)))

        def seconds(program, *options):
            run(program, "infer", "--input", f"ids={self.folder / 'ids.npy'}", "--output", self.folder / "out", "--repeat", 5, "--threads", self.options.threads,
                "--stats", self.folder / "stats.json", *options)
            return json.loads((self.folder / "stats.json").read_text())["step_seconds"], np.load(self.folder / "out" / "logits.npy")

        compute, expected = seconds(whole)
        rate = 4 * parameters / compute  # as long as computing
        machine = self.folder / "infer.toml"
        machine.write_text(f"[host]\ndown = {rate:.4g}\nup = {rate:.4g}\nlatency = 1e-5\n")
        cap = int(4 * parameters / 10)
        print(f"infer: {4 * parameters / 2**20:.0f} MiB of parameters in {cap / 2**20:.0f} MiB, {compute:.3f} s of computing, {rate:.3g} bytes/s", flush=True)
        capped = self.compile("infer_capped", model, "--device-memory", cap, "--machine", machine)
        if not capped:
            return
        taken, found = seconds(capped, "--pace", machine)
        if not np.array_equal(found, expected):
            sys.exit("error: the capped program computes other logits")
        least = max(compute, info(capped, self.options.threads, "infer")["moved"]["host_to_device"] / rate)
        print(f"  {taken:.3f} s: {taken / least:.2f} x the longer of computing and copying")


ROWS = ("deep", "speed", "infer")


def main():
    parser = argparse.ArgumentParser(prog="tools/bench memory", description="Compares programs below caps of memory with the same ones without.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}; default: all. deep takes 10 GB of memory and of disk")
    parser.add_argument("--threads", type=int, default=2, help="a rank; one fewer than there are cores leaves one for copies and the host's updates, as a GPU does")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4, help="in each round")
    parser.add_argument("--policies", action="store_true", help="compare with other systems' rules too")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build" / "bench-memory")
    options = parser.parse_args()
    if unknown := set(options.rows) - set(ROWS):
        parser.error(f"no row is called {', '.join(unknown)}")
    options.folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(options.folder, options)
    for row in options.rows or ROWS:
        getattr(bench, row)()


if __name__ == "__main__":
    main()
