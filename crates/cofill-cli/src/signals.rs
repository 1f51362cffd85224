//! Ending tidily when a signal ends us.

/// From now on, signals that would end this process do so only after its generated programs are gone, and their files.
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
    // Whoever had a signal ignored, as `nohup` does, wants to go on.
    let ignored = ignored();
    let wanted = [SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU];
    let heeded: Vec<i32> = wanted.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect();
    let mut signals = signal_hook::iterator::Signals::new(heeded)?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            cofill_sandbox::end_everything();
            // As if we had never listened: the exit status says which signal it was.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    });
    Ok(())
}

/// From now on, Ctrl-C says this before it ends the process. Only for commands that do nothing else.
#[cfg(target_os = "linux")]
pub(crate) fn say_when_interrupted(message: &'static str) -> std::io::Result<()> {
    use signal_hook::consts::signal::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            // Below whatever a bar has drawn.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("\n{message}\n").as_bytes());
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    });
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn say_when_interrupted(_: &'static str) -> std::io::Result<()> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn end_programs_first() -> std::io::Result<()> {
    Ok(())
}

/// The signals that are ignored, a bit each.
#[cfg(target_os = "linux")]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or_default();
    u64::from_str_radix(mask.trim(), 16).unwrap_or(0)
}
