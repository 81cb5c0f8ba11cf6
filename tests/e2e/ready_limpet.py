"""`python -m limpet`, in a process that has imported everything already.

As a program: a line on stdin is a command (its folder, words and environment, and the files of its
streams), and the answer its process's id; or it asks for the exit code of such a process. Each
command is a fork of this process, so that it is a process of its own, but one that needs not import
for a second. `Popen` starts one, or a script, or code; `run` starts `limpet` and waits for it,
`start_in_terminal` starts it in a terminal, and `run_script` runs a script strictly.
Where an interpreter's own start or end is the point, tests start a new one (`project.COMMAND`).
"""

import atexit
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
import traceback
import types
import warnings
from contextlib import suppress
from pathlib import Path

PATIENCE_S = 200  # then it hangs
STREAMS = ("stdin", "stdout", "stderr")
WRITE = os.O_WRONLY | os.O_APPEND
HARMLESS = {"PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}  # nothing that is said differs


def run(words, *, cwd=None, env=None):
    """Run `limpet` with these words, not in a terminal, and return what `subprocess.run` would."""
    return _run([sys.executable, "-m", "limpet", *map(str, words)], cwd, env)


def run_script(script, *, cwd):
    """Run a script for which each warning is an error, and return what `subprocess.run` would."""
    return _run([sys.executable, "-W", "error", str(script)], cwd, None)


def _run(command, cwd, env):
    environment = dict(os.environ if env is None else env)
    if _interpreter_settings(environment) != _interpreter_settings(os.environ):
        return subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=PATIENCE_S,
            check=False,
        )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        files = {name: str(Path(folder, name)) for name in STREAMS}
        code = _ready().do(
            {"words": command, "cwd": str(cwd or Path.cwd()), "environment": environment, **files}
        )
        out, err = (Path(files[name]).read_text(encoding="utf-8") for name in STREAMS[1:])
    return subprocess.CompletedProcess(command, code, out, err)


def _interpreter_settings(environment, also="PYTHON"):
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(("PYTHON", also)) and name not in HARMLESS
    }


def start_in_terminal(words, *, cwd, env, terminal):
    """Start a program as the leader of a terminal; None if this needs another interpreter."""
    words = [str(word) for word in words]
    if not _can_fork(words, env) or any(
        _interpreter_settings(env, also) != _interpreter_settings(os.environ, also)
        for also in ("LANG", "LC_")
    ):
        return None
    command = {"words": words, "cwd": str(cwd), "environment": env, "terminal": terminal}
    return Started(_ready(), _ready().start(command))


class Popen(subprocess.Popen):
    """A `subprocess.Popen` whose program is a fork, where a fork can be it.

    It can be `python -m limpet …`, `python script.py …` and `python -c …` without options and with
    this process's settings of the interpreter. Anything else is a new process, as it would be.
    """

    _forked = False

    def _execute_child(
        self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo,
        creationflags, shell, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite,
        restore_signals, gid, gids, uid, umask, start_new_session, *others,
    ):  # fmt: skip
        environment = {**(os.environ if env is None else env)}
        words = [os.fspath(word) for word in args]
        if preexec_fn or pass_fds or not _can_fork(words, environment):
            super()._execute_child(
                args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo,
                creationflags, shell, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite,
                restore_signals, gid, gids, uid, umask, start_new_session, *others,
            )  # fmt: skip
            return
        ends = (p2cread, c2pwrite, errwrite)
        self.pid = _ready().start({
            "words": words, "cwd": str(Path(cwd or "").absolute()), "environment": environment,
            "new_session": start_new_session,
            **{
                name: f"/proc/{os.getpid()}/fd/{number if end == -1 else end}"
                for number, (name, end) in enumerate(zip(STREAMS, ends, strict=True))
            },
        })  # fmt: skip
        self._forked = self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)

    def _internal_poll(self, _deadstate=None, **other):
        if not self._forked:
            return super()._internal_poll(_deadstate, **other)
        if self.returncode is None:
            # With a dead state it is asked by the garbage collector, perhaps while we ask.
            self.returncode = _ready().code_of(self.pid) if _deadstate is None else _deadstate
        return self.returncode

    def _wait(self, timeout):
        if not self._forked:
            return super()._wait(timeout)
        deadline = time.monotonic() + (PATIENCE_S if timeout is None else timeout)
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(self.args, timeout)
            time.sleep(0.005)
        return self.returncode


def _can_fork(words, environment):
    return (
        words[0] == sys.executable
        and (words[1:3] == ["-m", "limpet"] or words[1] == "-c" or words[1].endswith(".py"))
        and _interpreter_settings(environment) == _interpreter_settings(os.environ)
        and Path("/proc/self/fd").is_dir()
    )


def run_python(command, *, capture_output=False, timeout=PATIENCE_S, check=False, **options):
    """Do what `subprocess.run` does, with a fork where a fork can be the program."""
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(command, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def python_says(command, **options):
    """Do what `subprocess.check_output` does, with text."""
    return run_python(
        command, stdout=subprocess.PIPE, text=True, check=True, **options
    ).stdout  # fmt: skip


class Started:
    """A command that was started: of `subprocess.Popen`, what tests ask for."""

    def __init__(self, ready, pid):
        self.pid = pid
        self.returncode = None
        self._ready = ready

    def poll(self):
        if self.returncode is None:
            self.returncode = self._ready.code_of(self.pid)
        return self.returncode

    def wait(self, timeout=PATIENCE_S):
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("limpet", timeout)
            time.sleep(0.01)
        return self.returncode

    def send_signal(self, signum):
        if self.poll() is None:
            os.kill(self.pid, signum)

    def kill(self):
        self.send_signal(signal.SIGKILL)


class Ready:
    """The process that forks: this file, or another program that calls its `main`."""

    def __init__(self, program=(sys.executable, __file__), env=None):
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            program, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._read = b""
        atexit.register(self._process.communicate)

    def do(self, command):
        with self._lock:
            child = self._ask(command)
            self._tell({"pid": child, "options": 0})
            code = self._line(PATIENCE_S)
            if code is None:
                os.kill(child, signal.SIGKILL)
                self._line()
                raise subprocess.TimeoutExpired(command["words"], PATIENCE_S)
            return int(code)

    def start(self, command):
        """Start a command and return its process's id."""
        with self._lock:
            return self._ask(command)

    def code_of(self, child):
        """Return the exit code of a process that was started; None while it runs."""
        with self._lock:
            return self._ask({"pid": child, "options": os.WNOHANG})

    def _ask(self, command):
        self._tell(command)
        return json.loads(self._line())

    def _tell(self, command):
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()

    def _line(self, patience_s=None):
        """Return the next line of the process; None if it does not come in time."""
        # Not by a buffered file: what it has read already, `select` does not tell of.
        output = self._process.stdout.fileno()
        while b"\n" not in self._read:
            if not select.select([output], [], [], patience_s)[0]:
                return None
            piece = os.read(output, 4096)
            if not piece:
                raise EOFError("the process that forks has ended")
            self._read += piece
        line, self._read = self._read.split(b"\n", 1)
        return line


_started = []


def _ready():
    if not _started:
        _started.append(Ready())
    return _started[0]


# ---- the program --------------------------------------------------------------------------------


def main():
    import_all()
    gc.freeze()  # so that a child copies no memory by counting
    for line in sys.stdin:
        command = json.loads(line)
        if "words" in command:
            answer = start(command)
        else:
            found, status = os.waitpid(command["pid"], command["options"])
            answer = os.waitstatus_to_exitcode(status) if found else None
        print(json.dumps(answer), flush=True)  # noqa: T201


def start(command):
    """Fork, and return the child's id; its streams are open before anybody else closes them."""
    if "terminal" in command:
        streams = [os.open(command["terminal"], os.O_RDWR | os.O_NOCTTY)] * 3
    else:
        streams = [
            os.open(command[name], how | os.O_CREAT | os.O_NOCTTY, 0o600)
            for name, how in zip(STREAMS, (os.O_RDONLY, WRITE, WRITE), strict=True)
        ]
    child = os.fork()
    if child == 0:
        if "terminal" in command or command.get("new_session"):
            os.setsid()
        if "terminal" in command:
            fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
        use_streams(streams)
        be(command)
    for number in set(streams):
        os.close(number)
    return child


def use_streams(opened):
    """Make the streams that an interpreter makes."""
    for number, one in enumerate(opened):
        os.dup2(one, number)
    for one in set(opened):
        os.close(one)
    # Made anew: those of this process know whether what they were made for could seek.
    for number, (name, mode, errors) in enumerate(
        [("stdin", "r", "strict"), ("stdout", "w", "strict"), ("stderr", "w", "backslashreplace")]
    ):
        stream = open(number, mode, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def import_all():
    """Import every module of limpet, and build its models: a command does when it needs one."""
    limpet = importlib.import_module("limpet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for found in pkgutil.walk_packages(limpet.__path__, "limpet.", onerror=lambda _: None):
            if not found.name.endswith("__main__"):
                with suppress(Exception):  # an extra that is not installed
                    importlib.import_module(found.name)
    importlib.import_module("scipy.special")  # which a comparison of runs needs
    build(importlib.import_module("limpet.config.model").Section)
    warm_up(Path(limpet.__file__).parent / "cli" / "first" / "eval.yml")


def warm_up(config):
    """Fill the caches that every command fills, as of regular expressions."""
    importlib.import_module("limpet.config.config").load_config(config)


def build(section):
    for one in section.__subclasses__():
        one.model_rebuild()
        build(one)


def be(command):
    """Do what a new interpreter would, and end the process."""
    os.chdir(command["cwd"])
    os.environ.clear()
    os.environ.update(command["environment"])
    time.tzset()
    importlib.import_module("limpet.journal.lock")._STARTED_AT = time.time()  # as at its import
    sys.orig_argv[:] = words = command["words"]
    if words[1:3] == ["-W", "error"]:
        warnings.simplefilter("error")
        words = [words[0], *words[3:]]
    sys.argv[:] = words[2 if words[1] == "-m" else 1 :]
    importlib.invalidate_caches()
    code = 1
    try:
        if words[1] == "-m":
            sys.path[0] = os.getcwd()  # noqa: PTH109
            runpy.run_module("limpet", run_name="__main__", alter_sys=True)
        elif words[1] == "-c":
            del sys.argv[1]
            sys.path[0] = ""
            run_as_main(words[2], "<string>")
        else:
            script = Path(words[1]).absolute()
            sys.path[0] = str(script.resolve().parent)
            run_as_main(script.read_bytes(), str(script), __file__=str(script))
        code = 0
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
        if code and not isinstance(ending.code, int):
            print(ending.code, file=sys.stderr)  # noqa: T201
    except BaseException as error:
        traceback.print_exc()
        if isinstance(error, KeyboardInterrupt):
            code = -signal.SIGINT
    finally:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        if code < 0:
            signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        os._exit(code)


def run_as_main(source, name, **known):
    """Run code as the module `__main__` itself, not as a copy that ends with the code."""
    main_module = types.ModuleType("__main__")
    main_module.__dict__.update(known)
    sys.modules["__main__"] = main_module
    exec(compile(source, name, "exec"), main_module.__dict__)  # noqa: S102


if __name__ == "__main__":
    main()
