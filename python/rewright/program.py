"""The program `rewright` that comes with the package, and functions that run it."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

from ._contents import contents
from ._rewright import Error


def path():
    """The program: $REWRIGHT_PROGRAM, or that of this package, or the one on the PATH. Error: there is none."""
    given = os.environ.get("REWRIGHT_PROGRAM")
    packed = pathlib.Path(__file__).parent / "bin" / "rewright"
    found = given or (str(packed) if packed.exists() else shutil.which("rewright"))
    # The command `rewright` of this package is a script that calls main.
    if not found or (not given and os.path.realpath(found) == os.path.realpath(sys.argv[0])):
        raise Error("this package was built without the program `rewright`, and none is on the PATH")
    return found


def main():
    """The command `rewright`: the program takes this process over."""
    try:
        program = path()
    except Error as error:
        sys.exit(f"rewright: {error}")
    os.environ.setdefault("REWRIGHT_PYTHON", sys.executable)
    os.execv(program, [program, *sys.argv[1:]])


def _flags(settings):
    """The flags of settings: lists repeat a flag; a dict such as dims={"N": 8} is --dim N=8, once for each item."""
    for name, value in settings.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            yield flag
        elif isinstance(value, dict):
            yield from (f"{flag.removesuffix('s')}={key}={item}" for key, item in value.items())
        elif isinstance(value, (list, tuple)):
            yield from (f"{flag}={item}" for item in value)
        elif value is not None and value is not False:
            yield f"{flag}={os.fspath(value) if isinstance(value, os.PathLike) else value}"


def _run(arguments, on_line=None):
    """The program's --json, as a dict; of one that prints an object in each line the last, and `on_line` is called with
    each. An answer in the negative (status 1) is an answer. Error: that of the program. Ctrl-C is passed on, and raised
    once the program has ended.
    """
    environment = {"REWRIGHT_PYTHON": sys.executable, **os.environ}
    with tempfile.TemporaryFile("w+") as errors:
        # In a session of its own: Ctrl-C is passed on once, below.
        with subprocess.Popen([path(), *arguments, "--json", "--quiet"], stdout=subprocess.PIPE, stderr=errors, text=True,
                              env=environment, start_new_session=True) as process:
            answer = ""
            try:
                for line in process.stdout:
                    answer = line if on_line else answer + line
                    if on_line:
                        on_line(json.loads(line))
                status = process.wait()
            except BaseException:
                process.send_signal(signal.SIGINT)
                process.stdout.read()
                raise
        errors.seek(0)
        text = errors.read().strip()
    if status not in (0, 1) or not answer:
        raise Error(text or f"the program ended with status {status}")
    return json.loads(answer)


def _ask(verb, models, settings):
    with tempfile.TemporaryDirectory(prefix="rewright-") as folder:
        files = []
        for number, model in enumerate(map(contents, models)):
            if isinstance(model, bytes):
                file = pathlib.Path(folder) / f"{number}.onnx"
                file.write_bytes(model)
                model = str(file)
            files.append(model)
        return _run([verb, *files, *_flags(settings)])


def inspect(model, **settings):
    """Inputs, outputs, operators, FLOPs, parameters and memory of a model, as a dict, as `rewright inspect` tells them.

    Models are given as to `load`; settings are the verb's flags with _ for -, such as dims={"N": 8}. The same holds for
    the functions below. Error: that of the program.
    """
    return _ask("inspect", [model], settings)


def diff(a, b, **settings):
    """Differences of two models in structure and, on random inputs, in their outputs, as `rewright diff` finds them:
    same_structure, equal, max_abs_diff, worst and others; with prove=True the proof.
    """
    return _ask("diff", [a, b], settings)


def explain(model, **settings):
    """Where rules apply to a model and what that gains, or what stands in their way: as `rewright explain` tells it.

    rule="NAME" asks about one rule, node="NAME" about one value.
    """
    return _ask("explain", [model], settings)


def report(model, page, **settings):
    """Optimizes a model as `rewright optimize` does and writes the page about it to the path `page`. Returns the dict of
    its --json: verdict, rewritten, rewrites and others. output="fast.onnx" writes the result as well.
    """
    return _ask("optimize", [model], {**settings, "report": page})


def train(config, *, on_step=None, **settings):
    """Trains as `rewright train` does, in a process of its own, and returns the last line of its --json as a dict:
    final_loss, steps, weights_sha256 and others.

    `config` is the path of a configuration, or a dict with its fields, whose files are then found from the current
    folder. `on_step` is called with a dict for each step: step, epoch, loss, learning_rate, seconds. Settings are the
    verb's flags with _ for -: output="trained.onnx", checkpoint_dir="run", resume=True. Error: that of the program.
    Ctrl-C leaves a checkpoint as it does there, and is raised.
    """

    def on_line(line):
        if on_step is not None and "step" in line:
            on_step(line)

    if not isinstance(config, dict):
        return _run(["train", os.fspath(config), *_flags(settings)], on_line)
    with tempfile.NamedTemporaryFile("w", suffix=".json", prefix=".rewright-", dir=".") as file:
        json.dump(config, file)
        file.flush()
        return _run(["train", file.name, *_flags(settings)], on_line)
