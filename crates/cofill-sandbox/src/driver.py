"""Runs one generated program as HF evaluate's `code_eval` does, and tells the parent how it ended.

The parent writes to stdin, numbers of 8 bytes big endian: the program's length, its microseconds, the bytes of memory it
may take (0: no limit); a byte of flags (1: guard, 2: answer); the program; and last of all a nonce of 32 bytes. The
answer goes to the pipe that was stdout: `R` before the program starts, then the nonce if it ran to its end, `T` if its
time was up, `F` and a text if it raised. Nothing else counts as a pass, so a program that prints, exits or dies cannot
claim one; the nonce is what it would have to know, and the comments below say why it does not.

With the flag `answer` the program is one of our own, and what it leaves in its variable `answer` follows an `A` and its
length.
"""

# Modules by which Python code gets at memory, starts interpreters or loads libraries of its own choice.
NATIVE = frozenset(
    "_ctypes _ctypes_test _cffi_backend _tkinter _testcapi _testinternalcapi _testlimitedcapi _testbuffer _testclinic "
    "_testclinic_limited _testmultiphase _testsinglephase _testexternalinspection _remote_debugging _xxtestfuzz "
    "_interpreters _interpchannels _interpqueues _xxsubinterpreters _xxinterpchannels _xxinterpqueues".split()
)


def main():
    import builtins
    import faulthandler
    import io
    import mmap
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

    length, micros, memory = (int.from_bytes(take(8), "big") for _ in range(3))
    flags = take(1)[0]
    guarded, answers = flags & 1, flags & 2
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
    # So has it numpy and its like, which after the guard would fail for want of `os.putenv` or of ctypes.
    os.environ["OMP_NUM_THREADS"] = "1"
    packages = not answers and load_modules(program)
    if memory:
        limit_memory(memory, packages)

    # What is needed after the program has begun is taken now, before anybody can replace it.
    write, leave, setitimer = os.write, os._exit, getattr(signal, "setitimer", None)
    real_timer = getattr(signal, "ITIMER_REAL", None)

    # The harness's reliability guard: against accidents, not against malice.
    faulthandler.disable()
    builtins.exit = builtins.quit = builtins.help = None
    for name in (
        "kill system putenv remove removedirs rmdir fchdir setuid fork forkpty killpg rename renames truncate replace "
        "unlink fchmod fchown chmod chown chroot lchflags lchmod lchown getcwd chdir"
    ).split():
        setattr(os, name, None)
    # `os` has them from here, where libraries are told which configuration to read and what to load.
    inner = sys.modules.get("posix") or sys.modules.get("nt")
    inner.putenv = inner.unsetenv = None
    shutil.rmtree = shutil.move = shutil.chown = None
    subprocess.Popen = None
    for name in ("ipdb", "joblib", "resource", "psutil", "tkinter"):
        sys.modules[name] = None

    # The nonce goes from the pipe into a mapping of its own and, if all is well, from there into the other pipe. It is
    # never in memory that the interpreter has used or will use again, so no buffer that somebody forgot to clear shows
    # it. The kernel clears a mapping's pages before they become anybody else's.
    def sealed(mapping=mmap.mmap, raw=io.FileIO):
        page = mapping(-1, 32)
        raw(0, closefd=False).readinto(page)
        return page

    if guarded:
        guard(sys)
    stream = WriteOnlyStringIO()
    sys.stdout = sys.stderr = sys.stdin = stream
    write(out, b"R")
    try:
        if setitimer:
            setitimer(real_timer, micros / 1e6)
            signal.signal(signal.SIGALRM, alarm)
        if answers:
            names = {}
            exec(program, names)
            if setitimer:
                setitimer(real_timer, 0)
            left = names["answer"].encode("utf-8", "backslashreplace")
            left = b"A" + len(left).to_bytes(8, "big") + left
            while left:
                left = left[write(out, left) :]
        else:
            # One expression, on purpose. While the program runs, the nonce's mapping is on this frame's value stack and
            # nowhere else: in no variable, no constant, no object that `f_back`, `f_locals` or `__closure__` lead to, and
            # the pipe it came from is empty. After `exec` no name is looked up, so nothing that the program replaced
            # has a say. An exception skips the write and takes the mapping away, before anything else can run: from
            # then on nobody here knows the nonce.
            write(out, (sealed(), exec(program, {}))[0])
    except TimeoutException:
        write(out, b"T")
    except BaseException as error:
        # The verdict comes first: showing the error may run more of the program.
        write(out, b"F")
        if setitimer:
            setitimer(real_timer, 0)
        write(out, f"{error}"[:4000].encode("utf-8", "replace"))
    leave(0)


def load_modules(program):
    """Imports what the program does, and returns whether packages are among it that are installed beside Python.

    The harness's process has imported most of them itself before it forks off the one for the program, so there they are
    subject neither to its guard nor to the program's time. Installed packages may use native interfaces: they keep what
    they load. The standard library does without.
    """
    import importlib.util
    import os
    import re
    import sys

    def words(clause):
        return [part.split()[0] for part in clause.split(",") if part.split()]

    plain = re.findall(r"(?:^|[;:])[ \t]*import[ \t]+([\w., \t]+)", program, re.M)
    named = [word for clause in plain for word in words(clause)]
    lists = re.findall(r"(?:^|[;:])[ \t]*from[ \t]+([\w.]+)[ \t]+import[ \t]*(\([\w,\s]*|[\w, \t]*)", program, re.M)
    for package, clause in lists:
        # What is imported from a package may be a module of it.
        named += [package, *(package + "." + word for word in words(clause.lstrip("(")))]
    named += re.findall(r"(?:import_module|__import__)\([ \t]*['\"]([\w.]+)['\"]", program)

    def is_installed(name):
        spec = importlib.util.find_spec(name.partition(".")[0])
        places = [spec.origin or "", *(spec.submodule_search_locations or ())]
        return any(folder in place.split(os.sep) for folder in ("site-packages", "dist-packages") for place in places)

    def load(wanted):
        found = False
        for name in sorted(set(named)):
            try:
                # What installs packages is not for programs, and keeps ctypes in its drawers.
                tool = name.partition(".")[0] in ("pip", "setuptools", "pkg_resources", "wheel", "_distutils_hack")
                if not tool and is_installed(name) is wanted:
                    found = True
                    importlib.import_module(name)
            except BaseException:
                pass  # the program will see for itself
        return found

    hidden = [name for name in NATIVE if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # `None` there is a module that cannot be imported
    load(False)
    for name in hidden:
        del sys.modules[name]
    return load(True)


def limit_memory(memory, packages):
    """Limits the address space to `memory` bytes, or to so many more than packages have taken: torch alone maps
    gigabytes of its libraries.
    """
    import mmap
    import resource

    limit = resource.RLIMIT_AS
    most = resource.getrlimit(limit)[1]
    most = 1 << 47 if most == resource.RLIM_INFINITY else most
    # What is in use is the smallest limit under which one page more can be had. There may be no /proc to ask.
    low, used = 0, most if packages else 0
    while used - low > 1 << 20:
        middle = (low + used) // 2
        try:
            resource.setrlimit(limit, (middle, most))
            mmap.mmap(-1, mmap.PAGESIZE).close()
            used = middle
        except (OSError, MemoryError):
            low = middle
    memory = min(used + memory, most)
    resource.setrlimit(limit, (memory, memory))


def guard(sys):
    """Closes the ways from Python to the value stack below, and over the tests.

    An audit hook cannot be removed, sees the call and not the name, and is not reachable without what it refuses. It
    refuses to list objects or referents (the value stack is among a frame's), to trace (a trace function may jump over
    lines), to start interpreters (hooks are per interpreter), to load native interfaces (memory is memory) and to make
    code by hand (bytecode that no compiler wrote reads past its own variables).
    """
    import _imp
    import functools
    import os
    import types

    refused = "gc.get_objects gc.get_referrers gc.get_referents sys.settrace sys.monitoring.register_callback "
    refused += "sys._current_frames sys._current_exceptions cpython.PyInterpreterState_New marshal.load "
    refused += "sqlite3.enable_load_extension sqlite3.load_extension "
    # A profile function sees frames come and go. From 3.12 on it may also make them jump.
    refused += "sys.setprofile" if sys.version_info >= (3, 12) else ""
    refused = frozenset(refused.split())
    # Packages may have loaded them. They keep what they need; the program is told that there is none.
    for name in [name for name in sys.modules if name.partition(".")[0] in NATIVE | {"ctypes", "cffi"}]:
        del sys.modules[name]
    homes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, os.path.dirname(os.__file__)}
    homes.update(sys.path)
    homes = tuple(home.rstrip(os.sep) + os.sep for home in homes if home)

    # From here on all code comes from the compiler: modules are compiled from their source, and nothing else that makes
    # code is let through. The exception are modules that are part of the interpreter, which come by this way from 3.13
    # on and are known by their bytes.
    sys.pycache_prefix = os.devnull + os.sep + "nowhere"
    frozen = []
    if sys.version_info >= (3, 13):
        frozen = [bytes(_imp.find_frozen(name, withdata=True)[0]) for name in _imp._frozen_module_names()]

    # The library's own sets a flag in a copy of a generator's code; its other way, for generators that are none, does
    # without.
    def coroutine(function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            made = function(*args, **kwargs)
            return types._GeneratorWrapper(made) if isinstance(made, types.GeneratorType) else made

        return wrapped

    types.coroutine = coroutine

    # A refusal shows this function's frame to whoever catches it, so all that it uses is immutable and its own argument:
    # no name that the program could bind anew, no function whose code it could replace. It does nothing that runs
    # anybody else's code: no file, no frame, no object but those the interpreter made for the event. Methods are those of
    # `str` itself, because a subclass could lie. Whatever goes wrong in here is a refusal, too.
    def hook(
        event,
        args,
        refused=refused,
        native=NATIVE,
        homes=homes,
        frozen=frozenset(frozen),
        kind=type,
        text=str,
        sep=os.sep,
    ):
        if event == "import":
            name, path = args[0], args[1]
            # The part after the last dot decides what is initialised; a zero ends a path for the system, and not for us.
            if kind(name) is not text or name.rpartition(".")[2] in native:
                raise ImportError(f"{name} is refused in cofill's sandbox: native interfaces can read the verdict")
            if path is not None and (
                kind(path) is not text
                or ".." in path
                or "\0" in path
                or not path.startswith(homes)
                or path.split(sep)[-1].split(".")[0] in native
            ):
                raise ImportError("native modules from outside the Python installation are refused in cofill's sandbox")
        elif event == "marshal.loads" or event == "code.__new__":
            if event == "code.__new__" or args[0] not in frozen:
                raise RuntimeError("code that no compiler wrote is refused in cofill's sandbox")
        elif event in refused or event[:7] == "ctypes.":
            raise RuntimeError(f"{event} is refused in cofill's sandbox")

    # `doctest` sets the trace function back to None when it is done. That is no tracing, so it does not reach the hook.
    settrace, setprofile = sys.settrace, sys.setprofile
    sys.settrace = lambda function: None if function is None else settrace(function)
    if "sys.setprofile" in refused:
        sys.setprofile = lambda function: None if function is None else setprofile(function)
    sys.addaudithook(hook)


main()
