"""The program `rewright` that comes with the package, and training by it."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

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
    for name, value in settings.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            yield flag
        elif value is not None and value is not False:
            yield f"{flag}={os.fspath(value) if isinstance(value, os.PathLike) else value}"


def train(config, *, on_step=None, **settings):
    """Trains as `rewright train` does, in a process of its own, and returns the last line of its --json as a dict:
    final_loss, steps, weights_sha256 and others.

    `config` is the path of a configuration, or a dict with its fields, whose files are then found from the current
    folder. `on_step` is called with a dict for each step: step, epoch, loss, learning_rate, seconds. Settings are the verb's flags with _ for
    -: output="trained.onnx", checkpoint_dir="run", resume=True. Error: that of the program. Ctrl-C leaves a checkpoint
    as it does there, and is raised.
    """
    if not isinstance(config, dict):
        return _train(os.fspath(config), on_step, settings)
    with tempfile.NamedTemporaryFile("w", suffix=".json", prefix=".rewright-", dir=".") as file:
        json.dump(config, file)
        file.flush()
        return _train(file.name, on_step, settings)


def _train(config, on_step, settings):
    command = [path(), "train", config, "--json", "--quiet", *_flags(settings)]
    environment = {"REWRIGHT_PYTHON": sys.executable, **os.environ}
    with tempfile.TemporaryFile("w+") as errors:
        # In a session of its own: Ctrl-C is passed on once, below.
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment,
                                   start_new_session=True)
        last = {}
        try:
            for line in process.stdout:
                last = json.loads(line)
                if on_step is not None and "step" in last:
                    on_step(last)
            status = process.wait()
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.stdout.read()
            process.wait()
            raise
        errors.seek(0)
        text = errors.read().strip()
    if status != 0:
        raise Error(text or f"the program ended with status {status}")
    return last
