"""Runs one generated program as HF evaluate's `code_eval` does, and tells the parent how it ended.

The parent writes to stdin: 8 bytes length, 8 bytes microseconds, 1 byte guard (big endian), the program, and last of
all a nonce of 32 bytes. The answer goes to the pipe that was stdout: `R` before the program starts, then the nonce and
`None` if it ran to its end, `T` if its time was up, `F` and a text if it raised. Nothing else counts as a pass, so a
program that prints, exits or dies cannot claim one; the nonce is what it would have to know, and the comments below say
why it does not.
"""


def main():
    import builtins
    import faulthandler
    import io
    import os
    import shutil
    import signal
    import subprocess
    import sys

    # The verdict's pipe gets a number of its own; what the program writes to 1 and 2 goes nowhere.
    out = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.close(null)

    # Exactly as many bytes as asked for: the nonce must stay in the pipe until it is wanted.
    def take(n, read=os.read):
        parts = []
        while n:
            parts.append(read(0, n))
            if not parts[-1]:
                raise EOFError("the request ends early")
            n -= len(parts[-1])
        return b"".join(parts)

    length, micros = int.from_bytes(take(8), "big"), int.from_bytes(take(8), "big")
    guarded = take(1) != b"\0"
    program = take(length).decode("utf-8")
    sys.path[:] = [entry for entry in sys.path if entry]  # `-c` puts the working directory first; a script does not

    class TimeoutException(Exception):
        pass

    def alarm(signum, frame):
        raise TimeoutException("Timed out!")

    class WriteOnlyStringIO(io.StringIO):
        def read(self, *args, **kwargs):
            raise OSError

        def readline(self, *args, **kwargs):
            raise OSError

        def readlines(self, *args, **kwargs):
            raise OSError

        def readable(self, *args, **kwargs):
            return False

    # The harness has used these long before its guard; afterwards they would fail for want of `os.getcwd`.
    if "multiprocessing" in program or "concurrent" in program:
        import multiprocessing  # noqa: F401
    if "tempfile" in program:
        import tempfile

        tempfile.gettempdir()

    # What is needed after the program has begun is taken now, before anybody can replace it.
    read, write, leave, setitimer = os.read, os.write, os._exit, getattr(signal, "setitimer", None)
    real_timer = getattr(signal, "ITIMER_REAL", None)

    # The harness's reliability guard: against accidents, not against malice.
    faulthandler.disable()
    builtins.exit = builtins.quit = builtins.help = None
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in (
        "kill system putenv remove removedirs rmdir fchdir setuid fork forkpty killpg rename renames truncate replace "
        "unlink fchmod fchown chmod chown chroot lchflags lchmod lchown getcwd chdir"
    ).split():
        setattr(os, name, None)
    shutil.rmtree = shutil.move = shutil.chown = None
    subprocess.Popen = None
    for name in ("ipdb", "joblib", "resource", "psutil", "tkinter"):
        sys.modules[name] = None

    if guarded:
        guard(sys)
    stream = WriteOnlyStringIO()
    sys.stdout = sys.stderr = sys.stdin = stream
    write(out, b"R")
    try:
        if setitimer:
            setitimer(real_timer, micros / 1e6)
            signal.signal(signal.SIGALRM, alarm)
        # One expression, on purpose. While the program runs, the nonce is on this frame's value stack and nowhere
        # else: in no variable, no constant, no object that `f_back`, `f_locals` or `__closure__` lead to, and the
        # pipe it came from is empty. After `exec` no name is looked up, so nothing that the program replaced has a
        # say. An exception skips the write.
        write(out, b"%b%a" % (read(0, 32), exec(program, {})))
    except TimeoutException:
        setitimer(real_timer, 0)
        write(out, b"T")
    except BaseException as error:
        if setitimer:
            setitimer(real_timer, 0)
        write(out, b"F" + f"{error}"[:4000].encode("utf-8", "replace"))
    leave(0)


def guard(sys):
    """Closes the ways from Python to the value stack below, and over the tests.

    An audit hook cannot be removed, sees the call and not the name, and is not reachable without what it refuses. It
    refuses to list objects or referents (the value stack is among a frame's), to trace (a trace function may jump over
    lines), to start interpreters (hooks are per interpreter) and to load native interfaces (memory is memory).
    """
    import os

    refused = frozenset(
        "gc.get_objects gc.get_referrers gc.get_referents sys.settrace sys.monitoring.register_callback "
        "cpython.PyInterpreterState_New".split()
    )
    native = frozenset(
        "_ctypes _ctypes_test _cffi_backend _testcapi _testinternalcapi _testlimitedcapi _testbuffer _testclinic "
        "_testclinic_limited _testmultiphase _testsinglephase _testexternalinspection _remote_debugging _xxtestfuzz "
        "_interpreters _interpchannels _interpqueues _xxsubinterpreters _xxinterpchannels _xxinterpqueues".split()
    )
    homes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, os.path.dirname(os.__file__)}
    homes.update(sys.path)
    homes = tuple(home.rstrip(os.sep) + os.sep for home in homes if home)

    # `kind` and `text` are arguments because names of builtins can be replaced; methods are those of `str` itself
    # because a subclass could lie.
    def hook(event, args, refused=refused, native=native, homes=homes, kind=type, text=str, sep=os.sep):
        if event == "import":
            name, path = args[0], args[1]
            if kind(name) is not text or name in native:
                raise ImportError(f"{name} is refused in cofill's sandbox: native interfaces can read the verdict")
            if path is not None and (
                kind(path) is not text
                or ".." in path
                or not path.startswith(homes)
                or path.split(sep)[-1].split(".")[0] in native
            ):
                raise ImportError("native modules from outside the Python installation are refused in cofill's sandbox")
        elif event in refused or event[:7] == "ctypes.":
            raise RuntimeError(f"{event} is refused in cofill's sandbox")

    # `doctest` sets the trace function back to None when it is done. That is no tracing, so it does not reach the hook.
    settrace = sys.settrace
    sys.settrace = lambda function: None if function is None else settrace(function)
    sys.addaudithook(hook)


main()
