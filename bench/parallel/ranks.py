"""What benchmarks of training on several ranks share: how they are started, their processes, what these use."""
import json
import math
import os
import pathlib
import re
import select
import signal
import statistics
import subprocess

# As root, too, as in a container.
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
TICK = os.sysconf("SC_CLK_TCK")


def ranks_of(layout):
    """How many ranks a layout has."""
    return math.prod(int(n) for n in re.findall(r"\b[a-z]p=(\d+)", layout))


def processes_by_rank(mpirun):
    """Those that are there already."""
    found = {}
    for pid in subprocess.run(["pgrep", "-P", str(mpirun.pid)], capture_output=True, text=True).stdout.split():
        try:
            environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for entry in environment:
            if entry.startswith(b"OMPI_COMM_WORLD_RANK="):
                found[int(entry.split(b"=")[1])] = int(pid)
    return found


def cpu_seconds(pid):
    """Of every thread: its name and what it has used."""
    threads = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        name, fields = (task / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
        fields = fields.split()
        threads[int(task.name)] = name, (int(fields[11]) + int(fields[12])) / TICK
    return threads


class Usage:
    """CPU seconds of processes between two moments, by what threads do."""

    def __init__(self, pids, computes=()):
        """The first thread of a process computes, and those of these names."""
        self.pids, self.computes = pids, computes
        self.before = [cpu_seconds(pid) for pid in pids]

    def by_rank(self):
        """Of each: computation, and the rest."""
        used = []
        for pid, before in zip(self.pids, self.before):
            seconds = [0, 0]
            for thread, (name, now) in cpu_seconds(pid).items():
                seconds[thread != pid and name not in self.computes] += now - before.get(thread, (name, 0))[1]
            used.append(seconds)
        return used


class Training:
    """A run, of one thread and core a rank where there are as many cores."""

    def __init__(self, program, config, ranks, flags=()):
        train = [program, "train", str(config), "--json", "--quiet", "--threads", "1", *flags]
        bound = ["--bind-to", "core"] if ranks <= os.cpu_count() else ["--oversubscribe"]
        launch = ["mpirun", *bound, "-n", str(ranks)] if ranks > 1 else ["taskset", "-c", "0"]
        self.process = subprocess.Popen(launch + train, stdout=subprocess.PIPE, text=True, bufsize=1, env=ENVIRONMENT)
        self.step()
        found = processes_by_rank(self.process)
        self.pids = [found[rank] for rank in range(ranks)] if ranks > 1 else [self.process.pid]
        self.signal(signal.SIGSTOP)

    def signal(self, number):
        for pid in self.pids:
            os.kill(pid, number)

    def step(self):
        """Seconds of the next step."""
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"rewright train ended with status {self.process.wait()}")
        return json.loads(line)["seconds"]

    def turn(self, steps):
        """Seconds of a step, the median, and for each rank CPU seconds of a step: of computation, and the rest."""
        while select.select([self.process.stdout], [], [], 0.05)[0]:
            self.step()
        self.signal(signal.SIGCONT)
        self.step()  # the one that was stopped
        usage = Usage(self.pids)
        seconds = statistics.median([self.step() for _ in range(steps)])
        used = usage.by_rank()
        self.signal(signal.SIGSTOP)
        return seconds, [[value / steps for value in rank] for rank in used]

    def peak_bytes(self, steps):
        """Of each rank's own memory the most that it had at once: until now, and in these steps; without pages of
        files."""
        before = self.peaks()
        for pid in self.pids:
            pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak begins anew
        self.signal(signal.SIGCONT)
        for _ in range(steps):
            self.step()
        peaks = self.peaks()
        self.signal(signal.SIGSTOP)
        return before, peaks

    def peaks(self):
        peaks = []
        for pid in self.pids:
            status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
            peaks.append(1024 * (int(status["VmHWM"].split()[0]) - int(status["RssFile"].split()[0])))
        return peaks

    def end(self):
        self.signal(signal.SIGKILL)
        self.process.kill()
        self.process.wait()
