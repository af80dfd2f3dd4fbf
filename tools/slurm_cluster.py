"""A Slurm of its own on this machine, of one node with eight places, for tests: munged, slurmctld and slurmd in a folder, as root. Debian's packages are slurm-wlm and munge."""
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import time

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol")

CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_min_interval=100000,preempt_send_user_signal
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
KillWait=5
JobRequeue=1
SlurmdParameters=config_overrides
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=low Nodes={host} Default=YES State=UP PriorityTier=1 GraceTime=3
PartitionName=high Nodes={host} State=UP PriorityTier=10
"""


def missing():
    """What is not installed, or None."""
    paths = os.environ.get("PATH", "") + ":/usr/sbin"
    absent = [name for name in NEEDED if not shutil.which(name, path=paths)]
    if absent:
        return f"Slurm is not installed ({', '.join(absent)} of Debian's slurm-wlm and munge)"
    return None if os.getuid() == 0 else "Slurm's daemons need root"


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Cluster:
    """`with Cluster(folder) as cluster`: daemons that run, and end with it."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": os.environ.get("PATH", "") + ":/usr/sbin"}
        self.daemons = []

    def start(self, *command):
        log = open(self.folder / f"{command[0]}.out", "w")
        self.daemons.append(subprocess.Popen(command, stdout=log, stderr=log, env=self.environment, start_new_session=True))

    def __enter__(self):
        for name in ("state", "spool"):
            (self.folder / name).mkdir(mode=0o700)
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(64))
        key.chmod(0o400)
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(folder=self.folder, host=socket.gethostname(), ports=free_ports(2)))
        self.start("munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket", f"--key-file={key}", f"--pid-file={self.folder}/munged.pid",
                   f"--log-file={self.folder}/munged.log", f"--seed-file={self.folder}/munged.seed")
        self.until(lambda: (self.folder / "munge.socket").exists(), 20, "munged's socket")
        self.start("slurmctld", "-D")
        self.start("slurmd", "-D")
        self.until(lambda: "idle" in self.run("sinfo", "--noheader", "--format=%t").stdout, 60, "an idle node")
        return self

    def __exit__(self, *_):
        self.run("scancel", "--user=root", "--signal=KILL", "--full")
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(timeout=20)
            except subprocess.TimeoutExpired:
                daemon.kill()

    def run(self, *command):
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, env=self.environment, timeout=60)

    def until(self, true, seconds, what):
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                logs = "\n".join(f"{path.name}: {path.read_text()[-800:]}" for path in sorted(self.folder.glob("*.log")) + sorted(self.folder.glob("*.out")))
                raise AssertionError(f"{what}: not after {seconds} s\n{logs}")
            time.sleep(0.1)

    def state(self, job):
        """`PENDING`, `RUNNING`, ...; and how often it was requeued."""
        words = dict(word.split("=", 1) for word in self.run("scontrol", "show", "job", job).stdout.split() if "=" in word)
        return words.get("JobState", "gone"), int(words.get("Restarts", 0))
