"""The machine that tools/bench_cuda.py runs on: a GPU of NVIDIA with its libraries, the checking ones in their place, or neither; and PyTorch there."""
import ctypes
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import harness as h

LIBRARIES = ("libcuda.so.1", "libnccl.so.2", "libcublasLt.so.13", "libcublasLt.so.12", "libcudnn.so.9")


@dataclasses.dataclass
class Machine:
    description: str
    gpus: int
    chip: str  # what programs are compiled for
    folders: list  # of the libraries
    settings: dict = dataclasses.field(default_factory=dict)

    def environment(self, twins=None):
        """Of a program; the test binaries look beside themselves for the checking libraries unless they are told of others."""
        paths = [*self.folders, *os.environ.get("LD_LIBRARY_PATH", "").split(":")]
        return {**os.environ, "LD_LIBRARY_PATH": ":".join(dict.fromkeys(filter(None, map(str, paths)))), **self.settings,
                **({"TESSERA_CHECK_TWINS": str(twins)} if twins and self.settings else {})}


def checking():
    """Four GPUs that the host plays."""
    return Machine("the checking libraries: no GPU", 4, "sm_90", [h.BUILD / "lib" / "check"], {"TESSERA_CHECK_GPUS": "4"})


def real():
    """What the driver says; gpus is 0 without one."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return Machine(f"no driver of NVIDIA: {error}", 0, "sm_80", [])
    count, major, minor, name = ctypes.c_int(), ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(100)
    if status := cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return Machine(f"the driver of NVIDIA does not start, status {status}", 0, "sm_80", [])
    if count.value == 0:
        return Machine("no GPU", 0, "sm_80", [])
    cuda.cuDeviceGetName(name, 100, 0)
    for value, attribute in ((major, 75), (minor, 76)):
        cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, 0)
    capability = major.value * 10 + minor.value
    chip = max((c for c in ("sm_80", "sm_90", "sm_100") if int(c[3:]) <= capability), key=lambda c: int(c[3:]), default="sm_80")
    folders = []
    for library in LIBRARIES:
        try:
            ctypes.CDLL(library)
        except OSError:
            continue
        paths = [line.split()[-1] for line in pathlib.Path("/proc/self/maps").read_text().splitlines() if f"/{library.split('.')[0]}.so" in line]
        folders += [str(pathlib.Path(path).parent) for path in paths]
    return Machine(f"{count.value} x {name.value.decode()}, compute capability {major.value}.{minor.value}", count.value, chip, list(dict.fromkeys(folders)))


def torch_speed(batch, sequence, dtype, tokens, steps):
    """Tokens/s of GPT-2 124M by torch.compile in a process of its own, and the FLOP/s of its largest product; None where it cannot run."""
    command = [sys.executable, __file__, str(batch), str(sequence), dtype, str(tokens), str(steps)]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    return json.loads(result.stdout.splitlines()[-1]) if result.returncode == 0 else None


def torch_worker(batch, sequence, dtype, tokens, steps):
    import bench
    import numpy as np
    import torch

    device = "cuda" if torch.cuda.is_available() else sys.exit("no CUDA in PyTorch")
    element = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[dtype]
    data = torch.from_numpy(np.fromfile(tokens, "<u2").astype(np.int64)).to(device)
    ids, labels = (data[i:i + batch * sequence].view(batch, sequence) for i in (0, 1))
    model = bench.gpt(12, 768, 12, 50257, sequence).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True)
    model = torch.compile(model)

    def step():
        with torch.autocast(device, element, enabled=dtype != "f32"):
            loss = torch.nn.functional.cross_entropy(model(input_ids=ids).logits.flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    def median(body, times):
        seconds = []
        for _ in range(times):
            torch.cuda.synchronize()
            start = time.perf_counter()
            body()
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - start)
        return statistics.median(seconds)

    for _ in range(3):
        step()
    seconds = median(step, steps)
    a, b = (torch.randn(8192, 8192, device=device, dtype=element) for _ in range(2))
    a @ b
    print(json.dumps({"tokens": batch * sequence / seconds, "peak": 2 * 8192**3 / median(lambda: a @ b, 20)}))


if __name__ == "__main__":
    torch_worker(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5]))
