//! Ending tidily when a signal ends us: generated programs are gone, and the user hears what was kept and how to go on. And ending one
//! answer where that is all that was meant.

#[cfg(unix)]
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Says what an interruption leaves, at the moment it happens.
type LastWords = Box<dyn Fn() -> String + Send>;

static LAST_WORDS: Mutex<Option<LastWords>> = Mutex::new(None);

/// While this lives, an interruption is answered with its words.
pub(crate) struct Interruptible(());

impl Drop for Interruptible {
    fn drop(&mut self) {
        *LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Has `words` said on stderr when Ctrl-C or a scheduler ends this process, as long as what this gives is kept.
pub(crate) fn last_words(words: impl Fn() -> String + Send + 'static) -> Interruptible {
    *LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(words));
    Interruptible(())
}

/// From now on, signals that would end this process do so only after its generated programs are gone, and their files, and the commands
/// of task files.
/// SIGKILL cannot wait; what it leaves is removed by the next sandbox that is made. Elsewhere than on Linux there is no sandbox.
#[cfg(target_os = "linux")]
pub(crate) fn end_programs_first() -> std::io::Result<()> {
    static LISTENING: std::sync::Once = std::sync::Once::new();
    let mut listening = Ok(());
    LISTENING.call_once(|| listening = listen());
    listening
}

#[cfg(target_os = "linux")]
fn listen() -> std::io::Result<()> {
    use signal_hook::consts::signal::{SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU};
    let wanted = [SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU];
    let mut signals = signal_hook::iterator::Signals::new(heeded(&wanted))?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            cofill_eval::command::end_everything();
            cofill_sandbox::end_everything();
            speak();
            // As if we had never listened: the exit status says which signal it was.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    });
    Ok(())
}

/// Says the last words, once, over whatever bar is on the terminal.
#[cfg(target_os = "linux")]
fn speak() {
    let words = LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(words) = words {
        let clear = if crate::show::live() { "\r\x1b[2K" } else { "" };
        let _ = writeln!(anstream::stderr(), "{clear}{}", words()); // nobody is left to tell when stderr is gone
    }
}

/// Ctrl-C while somebody answers: it ends the answer, not the program.
#[derive(Debug, Clone)]
pub(crate) struct Interrupt {
    pressed: Arc<AtomicBool>,
    /// While it is set, Ctrl-C ends the program, as if nobody listened.
    idle: Arc<AtomicBool>,
}

impl Interrupt {
    /// Listens from now on, to the end of the program.
    pub(crate) fn listen() -> std::io::Result<Interrupt> {
        use signal_hook::consts::signal::SIGINT;
        let interrupt = Interrupt { pressed: Arc::default(), idle: Arc::new(AtomicBool::new(true)) };
        signal_hook::flag::register_conditional_default(SIGINT, interrupt.idle.clone())?;
        signal_hook::flag::register(SIGINT, interrupt.pressed.clone())?;
        Ok(interrupt)
    }

    /// Nobody listens: Ctrl-C ends the program, as it does in scripts.
    pub(crate) fn deaf() -> Interrupt {
        Interrupt { pressed: Arc::default(), idle: Arc::default() }
    }

    /// Does something that Ctrl-C ends by setting the flag.
    pub(crate) fn during<T>(&self, work: impl FnOnce(&Arc<AtomicBool>) -> T) -> T {
        self.pressed.store(false, Ordering::SeqCst);
        self.idle.store(false, Ordering::SeqCst);
        let done = work(&self.pressed);
        self.idle.store(true, Ordering::SeqCst);
        done
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn end_programs_first() -> std::io::Result<()> {
    Ok(())
}

/// Set while a picture may have been left behind by Ctrl-Z.
static SUSPENDED: AtomicBool = AtomicBool::new(false);

/// Whether this process was stopped and continued since this was last asked: the shell has written to the terminal in between.
pub(crate) fn was_suspended() -> bool {
    SUSPENDED.swap(false, Ordering::Relaxed)
}

/// From now on, a signal that ends or stops this process first gives back the cursor that a picture has hidden.
#[cfg(unix)]
pub(crate) fn keep_cursor() -> std::io::Result<()> {
    use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
    static LISTENING: std::sync::Once = std::sync::Once::new();
    let listen = || {
        let mut signals = signal_hook::iterator::Signals::new(heeded(&[SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP]))?;
        std::thread::spawn(move || {
            for signal in signals.forever() {
                // Past all locks: whoever draws may hold stderr's.
                let shown = std::fs::OpenOptions::new().write(true).open("/dev/tty");
                let _ = shown.and_then(|mut tty| tty.write_all(crate::show::screen::SHOW.as_bytes()));
                SUSPENDED.store(true, Ordering::Relaxed);
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        });
        Ok(())
    };
    let mut listening = Ok(());
    LISTENING.call_once(|| listening = listen());
    listening
}

#[cfg(not(unix))]
pub(crate) fn keep_cursor() -> std::io::Result<()> {
    Ok(())
}

/// Those of `wanted` that are not ignored: whoever had one ignored, as `nohup` does, wants to go on.
#[cfg(unix)]
fn heeded(wanted: &[i32]) -> Vec<i32> {
    let ignored = ignored();
    wanted.iter().copied().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect()
}

/// The signals that are ignored, a bit each; none where the system does not say.
#[cfg(unix)]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or_default();
    u64::from_str_radix(mask.trim(), 16).unwrap_or(0)
}
