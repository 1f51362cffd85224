//! Ordinary programs, and the harness's semantics for the less ordinary ones.

use super::{FALLBACK, SECOND, alone, by_two, python, sandbox};
use cofill_sandbox::{Layers, Options, Sandbox};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Every program with what `code_eval` says about it, behind all layers and without namespaces.
fn check(timeout: Duration, cases: &[(&str, &str)]) {
    let _alone = alone();
    let sandboxes = [sandbox(Layers::ALL), sandbox(FALLBACK)];
    by_two(cases.len(), |i| {
        let (program, want) = cases[i];
        for sandbox in &sandboxes {
            let execution = sandbox.run(program, timeout).unwrap();
            assert_eq!(execution.result, want, "{}:\n{program}", sandbox.describe());
            assert_eq!(execution.passed, want == "passed");
        }
    });
}

#[test]
fn ordinary_programs_pass() {
    check(
        3 * SECOND,
        &[
            ("", "passed"),
            ("import math\nassert math.gcd(12, 18) == 6", "passed"),
            ("import re\nassert re.findall(r'\\d+', 'a1b22') == ['1', '22']", "passed"),
            (
                "from collections import Counter, defaultdict, deque, OrderedDict, namedtuple\nassert Counter('aab')['a'] == 2\nP = namedtuple('P', 'x y')\nassert P(1, 2).y == 2",
                "passed",
            ),
            (
                "import itertools, functools, operator, bisect, copy, string, random, statistics\nassert list(itertools.accumulate([1, 2, 3])) == [1, 3, 6]",
                "passed",
            ),
            ("import heapq\nh = [3, 1, 2]\nheapq.heapify(h)\nassert heapq.heappop(h) == 1", "passed"),
            (
                "from typing import *\nfrom dataclasses import dataclass\nfrom enum import Enum\n@dataclass\nclass A:\n    x: int = 1\nassert A() == A(1)",
                "passed",
            ),
            (
                "import datetime, decimal, fractions, json, hashlib, time, uuid, base64, textwrap, struct, array, io, abc, contextlib\nassert hashlib.md5(b'x').hexdigest()\nassert decimal.Decimal('0.1') * 3 == decimal.Decimal('0.3')",
                "passed",
            ),
            (
                "import asyncio\nasync def f():\n    await asyncio.sleep(0.01)\n    return 7\nassert asyncio.run(f()) == 7",
                "passed",
            ),
            (
                "import threading, queue, concurrent.futures, multiprocessing\nwith concurrent.futures.ThreadPoolExecutor(4) as p:\n    assert sum(p.map(abs, [-1, -2])) == 3",
                "passed",
            ),
            (
                "import sqlite3, zlib, bz2, lzma, csv, tempfile, pathlib\nassert sqlite3.connect(':memory:').execute('select 1').fetchone() == (1,)\nwith tempfile.TemporaryFile() as f:\n    f.write(b'x')",
                "passed",
            ),
            (
                "import sys\nsys.setrecursionlimit(10000)\ndef f(n):\n    return n and 1 + f(n - 1)\nassert f(5000) == 5000",
                "passed",
            ),
            ("import doctest\nprint('out')\nassert doctest.testmod(__import__('string')).failed == 0", "passed"),
            ("x = [0] * 10_000_000\nassert len(x) == 10_000_000", "passed"),
            // Code from files, and the one place in the library that changes some.
            (
                "import sys, types, unittest.mock, xml.dom.minidom\nopen('mine.py', 'w').write('x = 7')\nsys.path.insert(0, '.')\nimport mine, importlib\nassert importlib.reload(mine).x == 7\n@types.coroutine\ndef f():\n    yield",
                "passed",
            ),
            ("# a comment in many letters: äöü 漢字 🦀\nassert len('🦀') == 1", "passed"),
        ],
    );
}

#[test]
fn semantics_are_the_harness_s() {
    check(
        SECOND,
        &[
            // A fresh dict, in which `__name__` comes from builtins; a guard for `__main__` does not run.
            ("assert __name__ == 'builtins'\nassert set(globals()) == {'__builtins__'}", "passed"),
            ("if __name__ == '__main__':\n    raise ValueError", "passed"),
            ("assert 1 == 2", "failed: "),
            ("assert 1 == 2, 'one is not two'", "failed: one is not two"),
            ("raise KeyError('k')", "failed: 'k'"),
            ("def f(:", "failed: invalid syntax (<string>, line 1)"),
            ("x = 1\0", "failed: source code string cannot contain null bytes"),
            ("import sys\nsys.exit()", "failed: "),
            ("import sys\nsys.exit(0)", "failed: 0"),
            ("raise SystemExit('bye')", "failed: bye"),
            ("class B(BaseException):\n    pass\nraise B('base')", "failed: base"),
            ("import os\nos._exit(0)", "timed out"),
            // The reliability guard.
            ("exit()", "failed: 'NoneType' object is not callable"),
            ("import os\nos.system('true')", "failed: 'NoneType' object is not callable"),
            ("import os\nos.getcwd()", "failed: 'NoneType' object is not callable"),
            ("import shutil\nshutil.rmtree('x')", "failed: 'NoneType' object is not callable"),
            ("import subprocess\nsubprocess.run(['true'])", "failed: 'NoneType' object is not callable"),
            ("import resource", "failed: import of resource halted; None in sys.modules"),
            ("import os\nassert os.environ['OMP_NUM_THREADS'] == '1'", "passed"),
            // Input raises, output goes nowhere.
            ("input()", "failed: "),
            ("import sys\nassert not sys.stdin.readable()\nsys.stdin.read()", "failed: "),
            ("import os, sys\nprint('x' * 100_000)\nsys.stderr.write('y')\nos.write(1, b'z' * 100_000)", "passed"),
            // A directory of its own, empty and writable.
            (
                "import os\nassert os.listdir('.') == []\nopen('a', 'w').write('b')\nassert open('a').read() == 'b'",
                "passed",
            ),
            // A thread that is still running does not keep a verdict back.
            ("import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()", "passed"),
            // Time: raised inside, and whoever swallows it in time passes.
            (
                "import time\ntry:\n    time.sleep(10)\nexcept Exception as error:\n    assert str(error) == 'Timed out!'",
                "passed",
            ),
            ("import time\ntime.sleep(1.5)", "timed out"),
            ("while True:\n    pass", "timed out"),
            (
                "import time\nwhile True:\n    try:\n        time.sleep(10)\n    except Exception:\n        pass",
                "timed out",
            ),
            // Nothing of ours is inherited; the order of a set is the same every time.
            ("import os\nassert not {'USER', 'CARGO', 'CARGO_MANIFEST_DIR'} & set(os.environ)", "passed"),
            (
                "import os\nfor fd in range(4, 64):\n    try:\n        os.fstat(fd)\n    except OSError:\n        continue\n    raise ValueError(fd)",
                "passed",
            ),
            ("assert hash('cofill') == hash('cofill') and list({'a', 'b', 'c'})", "passed"),
        ],
    );
}

#[test]
fn a_program_larger_than_a_pipe_arrives() {
    check(3 * SECOND, &[(&*format!("x = '{}'\nassert len(x) == 300000", "y".repeat(300_000)), "passed")]);
}

/// The sanitiser's channel: whatever its length and letters, and nothing if there is none.
#[test]
fn a_program_of_our_own_answers_at_length() {
    let _alone = alone();
    for sandbox in [sandbox(Layers::ALL), sandbox(FALLBACK)] {
        let answer = |program: &str| sandbox.answer(program, 3 * SECOND);
        assert_eq!(answer("answer = '漢字' * 100_000"), Ok(Some("漢字".repeat(100_000))));
        assert_eq!(answer("answer = ''"), Ok(Some(String::new())));
        assert_eq!(answer("answer = '\\ud800'"), Ok(Some("\\ud800".into())));
        assert_eq!(answer("1 / 0"), Ok(None));
        assert_eq!(answer("import time; time.sleep(10)"), Ok(None));
        let error = answer("answer = 'x' * (17 << 20)").unwrap_err();
        assert!(error.contains("16777216 bytes"), "{error}");
    }
}

/// Packages beside Python work as in the harness, whose process has imported them before its guard: here one that does at import what
/// numpy, sympy and torch do.
#[test]
fn installed_packages_can_be_imported() {
    let _alone = alone();
    let folder = std::env::temp_dir().join(format!("cofill-packages-{}", std::process::id()));
    let made = Command::new(python()).args(["-m", "venv", "--without-pip"]).arg(&folder).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let packages = std::fs::read_dir(folder.join("lib")).unwrap().next().unwrap().unwrap().path().join("site-packages");
    let package = packages.join("pretender");
    std::fs::create_dir_all(&package).unwrap();
    let code =
        "import ctypes, os\nos.environ['PRETENDER'] = '1'\nassert os.getcwd()\nword = ctypes.sizeof(ctypes.c_long)\n";
    std::fs::write(package.join("__init__.py"), code).unwrap();
    std::fs::write(package.join("inner.py"), "import ctypes, mmap\nmapped = mmap.mmap(-1, 3 << 30)\n").unwrap();
    let interpreter = folder.join("bin/python");
    for layers in [Layers::ALL, FALLBACK] {
        let sandbox = Sandbox::new(&interpreter, Options { layers, ..Options::default() }).unwrap();
        for (program, want) in [
            ("import pretender\nassert pretender.word in (4, 8)", "passed"),
            ("def f():\n    from pretender import word as w; return w\nassert f()", "passed"),
            (
                "from math import sqrt\nfrom pretender import (\n    word as w,\n    inner,\n)\nassert inner.mapped",
                "passed",
            ),
            ("import importlib\nassert importlib.import_module('pretender').word", "passed"),
            // What packages take is theirs; the program has its share beyond it, and not more.
            ("import math, pretender.inner\nx = bytearray(500 << 20)", "passed"),
            ("import pretender.inner\nx = bytearray(2200 << 20)", "failed: "),
            // What the guard and the harness refuse is still refused.
            ("import pretender, os\nos.getcwd()", "failed: 'NoneType' object is not callable"),
            (
                "import pretender, ctypes",
                "failed: _ctypes is refused in cofill's sandbox: native interfaces can read the verdict",
            ),
            ("import pretenders", "failed: No module named 'pretenders'"),
        ] {
            let execution = sandbox.run(program, 3 * SECOND).unwrap();
            assert_eq!(execution.result, want, "{}:\n{program}", sandbox.describe());
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Limits of tasks are each program's own, whoever else runs some: two sandboxes know as little of each other as two processes do.
#[test]
fn the_threads_of_others_do_not_count() {
    let _alone = alone();
    let program = "import threading, time\ngate = threading.Barrier(41)\nfor _ in range(40):\n    \
                   threading.Thread(target=gate.wait).start()\ntime.sleep(0.3)\ngate.wait()";
    for layers in [Layers::ALL, FALLBACK] {
        // Forty stacks need the usual memory.
        let [one, other] = [(); 2].map(|()| Sandbox::new(&python(), Options { layers, ..Options::default() }).unwrap());
        std::thread::scope(|scope| {
            for sandbox in [&one, &other, &one, &other] {
                scope.spawn(move || {
                    for _ in 0..4 {
                        assert_eq!(
                            sandbox.run(program, 5 * SECOND).unwrap().result,
                            "passed",
                            "{}",
                            sandbox.describe()
                        );
                    }
                });
            }
        });
    }
}

#[test]
fn the_description_names_python_and_the_layers() {
    let _alone = alone();
    let sandbox = sandbox(FALLBACK);
    let text = sandbox.describe();
    for word in ["Python 3.", sandbox.python_version(), "Landlock", "seccomp", "resource limits", "512 MiB"] {
        assert!(text.contains(word), "{text}");
    }
    assert!(!text.contains("namespaces ("), "{text}");
}

#[test]
fn too_little_is_refused_unless_it_is_wanted() {
    let _alone = alone();
    for layers in [
        Layers { namespaces: false, landlock: false, ..Layers::ALL },
        Layers { namespaces: false, seccomp: false, ..Layers::ALL },
        Layers { seccomp: false, ..Layers::ALL },
        Layers { rlimits: false, ..Layers::ALL },
        Layers::NONE,
    ] {
        let options = |unsafe_exec| Options { layers, unsafe_exec, ..Options::default() };
        let error = Sandbox::new(&python(), options(false)).unwrap_err().to_string();
        assert!(
            error.contains("offers too little") && error.contains("seccomp and either namespaces or Landlock"),
            "{error}"
        );
        let sandbox = Sandbox::new(&python(), options(true)).unwrap();
        assert!(sandbox.describe().contains("--unsafe-exec"));
        assert!(sandbox.run("assert True", SECOND).unwrap().passed);
    }
}

#[test]
fn a_python_that_is_missing_or_old_is_named() {
    let _alone = alone();
    for path in ["/nonexistent/python3", "/bin/true"] {
        let error = Sandbox::new(Path::new(path), Options::default()).unwrap_err().to_string();
        assert!(error.contains(path) && error.contains("a Python of 3.8 or newer"), "{error}");
    }
}

/// Root can be anybody: some of these tests once more as a user without any rights, and as root without capabilities,
/// as in containers. All of them with `COFILL_SLOW`.
#[test]
fn an_ordinary_user_and_a_powerless_root_are_protected_as_well() {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|about| std::os::unix::fs::MetadataExt::uid(&about) == 0);
    let setpriv = Command::new("setpriv").arg("--version").output().is_ok_and(|output| output.status.success());
    if !is_root || !setpriv || !Path::new("/usr/bin/python3").exists() || std::env::var_os("COFILL_AGAIN").is_some() {
        return println!("SKIPPED: only root with setpriv and /usr/bin/python3 can become others");
    }
    let _alone = alone();
    // The binary has to be readable to them, and cargo's directory need not be.
    let copy = std::env::temp_dir().join(format!("cofill-again-{}-it", std::process::id()));
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let somebody = ["--reuid=54321", "--regid=54321", "--clear-groups"];
    let powerless = ["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"];
    let slow = std::env::var_os("COFILL_SLOW").is_some();
    let tests: &[&str] = if slow { &[] } else { &["hostile::no_file", "hostile::processes", "harmless::the_"] };
    for who in [&somebody[..], &powerless[..]] {
        let mut command = Command::new("setpriv");
        command.args(who).arg(&copy).args(tests).arg("--test-threads=1");
        let output = command.env("COFILL_PYTHON", "/usr/bin/python3").env("COFILL_AGAIN", "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        // Names that no test has any more would run nothing, and nothing passes.
        let ran_all = tests.iter().all(|name| text.contains(&format!("test {name}")));
        if !output.status.success() || !ran_all {
            std::fs::remove_file(copy).unwrap();
            panic!("{who:?}: {text}");
        }
    }
    std::fs::remove_file(copy).unwrap();
}
