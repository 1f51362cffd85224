//! A command at a terminal of its own: what is typed, what the screen is told.
#![allow(unsafe_code)]

use crate::run::COFILL;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long a test waits before it calls itself stuck; nothing is ever expected to take a certain time.
const STUCK: Duration = Duration::from_secs(240);

/// What rustyline tells a terminal as soon as it reads keys by itself.
const READS_KEYS: &str = "\x1b[?2004h";

/// A command and the terminal that it believes to be at.
pub(crate) struct Terminal {
    child: Child,
    keys: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
    /// How much of it was waited for already.
    read: usize,
}

impl Terminal {
    /// Starts `cofill` with arguments and variables, at a terminal of that many columns.
    pub(crate) fn start(args: &[&str], variables: &[(&str, &str)], columns: u16) -> Terminal {
        let (master, slave) = open(columns);
        let mut command = Command::new(COFILL);
        command.args(args).env("TERM", "xterm").env_remove("NO_COLOR").envs(variables.iter().copied());
        let end = || slave.try_clone().unwrap();
        command.stdin(end()).stdout(end()).stderr(end());
        // SAFETY: between fork and exec only these two system calls are made, both of which may be made there.
        unsafe {
            command.pre_exec(|| {
                // A session of its own, whose terminal is this one: so Ctrl-C becomes a signal.
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        drop((command, slave));
        let mut reader = File::from(master.try_clone().unwrap());
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // A terminal whose command has ended is an error to read from.
            while let Ok(n) = reader.read(&mut bytes) {
                if n == 0 || sender.send(bytes[..n].to_vec()).is_err() {
                    break;
                }
            }
        });
        Terminal { child, keys: File::from(master), screen, seen: String::new(), read: 0 }
    }

    /// Types when the command is ready to read keys.
    #[track_caller]
    pub(crate) fn type_at_prompt(&mut self, keys: &str) {
        self.wait_for(READS_KEYS);
        self.press(keys);
    }

    /// Presses keys at once.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen was told this, after whatever was waited for before. Gives what came up to it.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.seen[self.read..].find(text) {
                let end = self.read + at + text.len();
                let told = self.seen[self.read..end].to_owned();
                self.read = end;
                return told;
            }
            match self.screen.recv_timeout(STUCK) {
                Ok(bytes) => self.seen += &String::from_utf8_lossy(&bytes),
                Err(_) => panic!("`{text}` never came, but:\n{}", &self.seen[self.read..]),
            }
        }
    }

    /// Waits for the end: everything the screen was told since, and the exit code.
    pub(crate) fn end(mut self) -> (String, Option<i32>) {
        while let Ok(bytes) = self.screen.recv_timeout(STUCK) {
            self.seen += &String::from_utf8_lossy(&bytes);
        }
        let code = self.child.wait().unwrap().code();
        (self.seen[self.read..].to_owned(), code)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill(); // a test that failed leaves nobody behind
        let _ = self.child.wait();
    }
}

fn open(columns: u16) -> (OwnedFd, OwnedFd) {
    let (mut master, mut slave) = (-1, -1);
    let size = libc::winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: both descriptors and the size outlive the call, and null is allowed for what is not wanted.
    let opened = unsafe {
        libc::openpty(&raw mut master, &raw mut slave, std::ptr::null_mut(), std::ptr::null(), &raw const size)
    };
    assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the call succeeded, so both are open and nobody else's.
    unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) }
}
