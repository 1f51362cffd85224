//! Hostile programs behind all layers, behind those that are left where namespaces are forbidden, and behind each
//! layer alone.
//!
//! The last says which layer stops what, and docs/sandbox.md holds it: `COFILL_BLESS=1` writes the table, otherwise
//! it is checked.

use super::{FALLBACK, SECOND, alone, by_two, drivers, sandbox, unsafe_sandbox};
use cofill_sandbox::{Execution, Layers, Sandbox};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

struct Hostile {
    name: &'static str,
    tries: &'static str,
    flags: &'static str,
    program: String,
}

impl Hostile {
    fn is(&self, flag: &str) -> bool {
        self.flags.split_whitespace().any(|each| each == flag)
    }
}

fn programs() -> Vec<Hostile> {
    let (_, programs) = include_str!("hostile.txt").split_once("\n#! ").unwrap();
    let parse = |text: &'static str| {
        let (head, program) = text.split_once('\n').unwrap();
        let (left, tries) = head.split_once(" | ").unwrap();
        let (name, flags) = left.split_once(" [").unwrap_or((left, "]"));
        Hostile { name, tries, flags: flags.trim_end_matches(']'), program: program.into() }
    };
    programs.split("\n#! ").map(parse).collect()
}

/// What is outside, anew for each run: everybody may do everything there, so that only walls can prevent it.
struct Outside {
    folder: PathBuf,
    victim: Child,
    port: TcpListener,
    _sockets: (UnixListener, UnixDatagram, UnixListener),
    abstract_name: String,
}

impl Outside {
    fn new() -> Outside {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("cofill-outside-{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = env::temp_dir().join(&name);
        let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        fs::create_dir_all(folder.join("home")).unwrap();
        open(&folder, 0o777);
        open(&folder.join("home"), 0o777);
        fs::write(folder.join("canary"), "canary").unwrap();
        open(&folder.join("canary"), 0o666);
        let unix = UnixListener::bind(folder.join("socket")).unwrap();
        let datagram = UnixDatagram::bind(folder.join("socket.datagram")).unwrap();
        open(&folder.join("socket"), 0o777);
        open(&folder.join("socket.datagram"), 0o777);
        let by_name = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        Outside {
            folder,
            victim: Command::new("sleep").arg("60").spawn().unwrap(),
            port: TcpListener::bind("127.0.0.1:0").unwrap(),
            _sockets: (unix, datagram, by_name),
            abstract_name: name,
        }
    }

    fn put_into(&self, program: &str) -> String {
        let path = |name: &str| format!("{:?}", self.folder.join(name));
        let mut program = program.to_owned();
        for (word, value) in [
            ("CANARY", path("canary")),
            ("OUTSIDE", format!("{:?}", self.folder)),
            ("HOMEDIR", path("home")),
            ("VICTIM", self.victim.id().to_string()),
            ("PARENT", process::id().to_string()),
            ("PORT", self.port.local_addr().unwrap().port().to_string()),
            ("SOCKET_FILE", path("socket")),
            ("ABSTRACT", format!("{:?}", self.abstract_name)),
        ] {
            program = program.replace(word, &value);
        }
        program
    }

    /// Whether all is as it was.
    fn untouched(&mut self) -> bool {
        let mut names: Vec<_> = fs::read_dir(&self.folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        let canary = self.folder.join("canary");
        names == ["canary", "home", "socket", "socket.datagram"]
            && fs::read_dir(self.folder.join("home")).unwrap().count() == 0
            && fs::read_to_string(&canary).is_ok_and(|text| text == "canary")
            && fs::metadata(&canary).is_ok_and(|about| about.permissions().mode() & 0o7777 == 0o666)
            && fs::metadata(&canary).is_ok_and(|about| about.modified().unwrap().elapsed().unwrap() < 60 * SECOND)
            && self.victim.try_wait().unwrap().is_none()
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Runs a program with an outside of its own: how it ended, and whether the outside is as it was.
fn attack(sandbox: &Sandbox, hostile: &Hostile) -> (Execution, bool) {
    let mut outside = Outside::new();
    let timeout = if hostile.is("slow") { SECOND / 2 } else { 3 * SECOND };
    let began = Instant::now();
    let execution = sandbox.run(&outside.put_into(&hostile.program), timeout).unwrap();
    // A second of grace, and what it takes to start and end a process on a machine under load.
    assert!(began.elapsed() < timeout + 20 * SECOND, "{}: {:?}", hostile.name, began.elapsed());
    (execution, outside.untouched())
}

/// That a program gets nowhere: it does not pass, unless it only tries to leave something behind, and touches nothing.
fn check(what: &str, sandbox: &Sandbox, hostile: &Hostile) {
    let (execution, untouched) = attack(sandbox, hostile);
    assert!(untouched, "{what}: {} reached the outside: {execution:?}", hostile.name);
    assert!(!execution.passed || hostile.is("survives"), "{what}: {} passed", hostile.name);
}

#[test]
fn no_hostile_program_passes_reaches_the_outside_or_leaves_anything() {
    let _alone = alone();
    let programs = programs();
    assert!(programs.len() >= 30);
    let unguarded = |layers: Layers| Layers { guard: false, ..layers };
    let sandboxes = [("all layers", Layers::ALL), ("without namespaces", FALLBACK)]
        .map(|(what, layers)| (what, sandbox(layers), sandbox(unguarded(layers))));

    let neighbour = Neighbour::new();
    by_two(programs.len(), |i| {
        for (what, sandbox, unguarded) in &sandboxes {
            check(what, sandbox, &programs[i]);
            // The guard stops ctypes before it reaches a wall. The walls must hold without it.
            if programs[i].is("native") && programs[i].name != "ctypes-stack" {
                check(&format!("{what}, unguarded"), unguarded, &programs[i]);
            }
        }
    });
    let worst = neighbour.worst();
    println!("conformance: {} hostile programs, each with and without namespaces, got nowhere", programs.len());
    println!("the longest that a thread next to them waited for 20 ms was {worst:?}");
    assert!(worst < 3 * SECOND, "the machine did not respond for {worst:?}");
}

/// Somebody else on this machine, who wants to be served every 20 ms while all this goes on.
struct Neighbour {
    worst: Arc<Mutex<Duration>>,
}

impl Neighbour {
    fn new() -> Neighbour {
        let worst = Arc::new(Mutex::new(Duration::ZERO));
        let shared = Arc::downgrade(&worst);
        thread::spawn(move || {
            while let Some(worst) = shared.upgrade() {
                let before = Instant::now();
                thread::sleep(SECOND / 50);
                let mut worst = worst.lock().unwrap();
                *worst = before.elapsed().max(*worst);
            }
        });
        Neighbour { worst }
    }

    fn worst(&self) -> Duration {
        *self.worst.lock().unwrap()
    }
}

/// Bombs where seccomp does not forbid processes: limits bound them, and the PID namespace ends them.
#[test]
fn processes_end_with_their_namespace() {
    let _alone = alone();
    let sandbox = unsafe_sandbox(Layers { seccomp: false, ..Layers::ALL });
    if !sandbox.layers().namespaces {
        return println!("SKIPPED: this machine allows no namespaces");
    }
    for hostile in programs() {
        if ["forks", "fork-bomb", "daemon", "immortal-child", "threads", "spawn-shell"].contains(&hostile.name) {
            let (execution, untouched) = attack(&sandbox, &hostile);
            assert!(untouched && (!execution.passed || hostile.is("survives")), "{}: {execution:?}", hostile.name);
            assert_eq!(drivers(), Vec::<String>::new(), "{} lives on", hostile.name);
        }
    }
}

/// The canaries of the issue: in every place where people keep files, with the permissions files usually have.
#[test]
fn no_file_of_the_user_can_be_read() {
    let _alone = alone();
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let places = ["/home".into(), "/root".into(), "/tmp".into(), "/work".into(), "/var/tmp".into(), here];
    let mut canaries: Vec<PathBuf> =
        places.map(|place: PathBuf| place.join(format!(".cofill-canary-{}", process::id()))).into();
    canaries.retain(|canary| fs::write(canary, "secret").is_ok());
    assert!(!canaries.is_empty());
    let others =
        ["/etc/passwd", "/etc/hostname", "/proc/self/environ", "/proc/1/cmdline", "/sys/kernel", "/run", "/var/log"];
    for layers in [Layers::ALL, FALLBACK] {
        let sandbox = sandbox(layers);
        for path in canaries.iter().map(|path| path.to_str().unwrap()).chain(others) {
            let program = format!(
                "import os\npath = {path:?}\nfor read in (os.listdir, lambda p: open(p).read()):\n    try:\n        \
                 read(path)\n    except OSError:\n        continue\n    raise SystemExit('read')"
            );
            let execution = sandbox.run(&program, 3 * SECOND).unwrap();
            assert!(execution.passed, "{path} behind {layers:?}: {execution:?}");
        }
    }
    canaries.iter().for_each(|canary| fs::remove_file(canary).unwrap());
}

const LAYERS: [(&str, Layers); 6] = [
    ("namespaces", Layers { namespaces: true, ..Layers::NONE }),
    ("Landlock", Layers { landlock: true, ..Layers::NONE }),
    ("seccomp", Layers { seccomp: true, ..Layers::NONE }),
    ("limits", Layers { rlimits: true, ..Layers::NONE }),
    ("privileges", Layers { privileges: true, ..Layers::NONE }),
    ("guard", Layers { guard: true, ..Layers::NONE }),
];

/// What stops a program for which no layer is needed: how verdicts are given, the clock, or that a run ends with its
/// group and directory.
fn without_layers(hostile: &Hostile) -> &'static str {
    match hostile {
        each if each.is("slow") => "time",
        each if each.is("survives") => "clean-up",
        _ => "verdict",
    }
}

/// The rows between the markers in docs/sandbox.md, each claim of which is tried; with `COFILL_BLESS`, every layer
/// is, and the table written. A machine that lacks a layer cannot say anything about it, and what an identity is
/// worth depends on whose it was.
#[test]
fn every_layer_stops_what_the_table_says() {
    const MARKS: [&str; 2] = ["<!-- hostile programs: begin -->\n", "<!-- hostile programs: end -->"];
    let _alone = alone();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sandbox.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(MARKS[0]).unwrap();
    let (table, after) = rest.split_once(MARKS[1]).unwrap();
    let programs: Vec<Hostile> = programs().into_iter().filter(|each| !each.is("caged")).collect();
    let bless = env::var_os("COFILL_BLESS").is_some();
    let claims = read_table(table);
    if !bless {
        let listed: Vec<&str> =
            programs.iter().map(|each| each.name).filter(|name| claims.contains_key(name)).collect();
        assert_eq!((listed.len(), claims.len()), (programs.len(), programs.len()), "COFILL_BLESS=1 writes the table");
    }

    let bare = unsafe_sandbox(Layers::NONE);
    let layered = LAYERS.map(|(name, layers)| (name, layers, unsafe_sandbox(layers)));
    let here: Vec<_> = layered.iter().filter(|(_, layers, sandbox)| sandbox.layers() == *layers).collect();
    let found = Mutex::new(BTreeMap::new());
    let judge = |hostile: &Hostile| {
        let wanted = |name: &str| bless || (claims[hostile.name].contains(&name) && name != "privileges");
        let free = without_layers(hostile);
        let by: Vec<&str> = if wanted(free) && stops(&bare, hostile) {
            vec![free]
        } else {
            let layers = here.iter().filter(|(name, _, sandbox)| wanted(name) && stops(sandbox, hostile));
            layers.map(|(name, ..)| *name).collect()
        };
        found.lock().unwrap().insert(hostile.name, by);
    };
    // Programs that try to survive are looked for on the machine, so they are tried one at a time.
    let (survive, rest): (Vec<_>, Vec<_>) = programs.iter().partition(|each| each.is("survives"));
    by_two(rest.len(), |i| judge(rest[i]));
    survive.iter().for_each(|each| judge(each));
    let found = found.into_inner().unwrap();

    let names: Vec<&str> = here.iter().map(|(name, ..)| *name).collect();
    if bless {
        assert_eq!(names.len(), LAYERS.len(), "a machine with every layer has to write the table");
        let row = |each: &Hostile| format!("| `{}` | {} | {} |\n", each.name, each.tries, found[each.name].join(", "));
        let head = "| program | tries to | stopped by |\n|---|---|---|\n";
        let rows: String = programs.iter().map(row).collect();
        return fs::write(&path, [before, MARKS[0], head, &rows, MARKS[1], after].concat()).unwrap();
    }
    for each in &programs {
        let tried = |layer: &&&str| names.contains(*layer) && **layer != "privileges";
        let missed: Vec<&&str> =
            claims[each.name].iter().filter(tried).filter(|layer| !found[each.name].contains(*layer)).collect();
        assert_eq!(missed, Vec::<&&str>::new(), "docs/sandbox.md says that these stop {}", each.name);
    }
    println!("conformance: {} rows of docs/sandbox.md hold, for {}", programs.len(), names.join(", "));
}

/// Whether a program got what it wanted, behind layers that need not be enough.
fn stops(sandbox: &Sandbox, hostile: &Hostile) -> bool {
    let (execution, _) = attack(sandbox, hostile);
    if !hostile.is("survives") {
        return !execution.passed;
    }
    let lives_on = !drivers().is_empty();
    // They are bounded: wait until they are gone.
    while !drivers().is_empty() {
        thread::sleep(SECOND / 10);
    }
    !lives_on
}

/// Programs and what stops them.
fn read_table(table: &str) -> BTreeMap<&str, Vec<&str>> {
    table
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            (cells[1].trim_matches('`'), cells[3].split(", ").collect())
        })
        .collect()
}
